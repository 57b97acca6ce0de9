// Mean and variance of everything seen so far, merged batch by batch (Chan, Golub, LeVeque 1979).
#pragma once

namespace maniple {

struct RunningMoments {
  double mean = 0, variance = 1;
  double count = 0;

  void merge(double batch_mean, double batch_variance, double samples) {
    const double total = count + samples, difference = batch_mean - mean;
    if (!(total > 0)) return;
    variance =
        (variance * count + batch_variance * samples + difference * difference * count * samples / total) /
        total;
    mean += difference * samples / total;
    count = total;
  }
};

}  // namespace maniple
