#include "src/learning/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/base/exact_sum.hpp"
#include "kernels/nn/exact_totals.hpp"
#include "src/learning/schedule.hpp"

namespace maniple {
namespace {

// The scale goes down by 16 with a gradient that is too large, and up by 2 after this many steps without one,
// as loss scales do where numbers have few bits (Micikevicius et al. 2018, "Mixed precision training").
constexpr double kLeastScale = 0x1p-40;
constexpr std::int64_t kStepsAtScale = 1000;

std::int64_t totals_count(std::int64_t parameters, int metrics) {
  return parameters + metrics + 1;
}
std::int64_t norm_blocks(std::int64_t parameters) {
  return (parameters + kNormBlock - 1) / kNormBlock;
}

}  // namespace

LearnerMemory Optimizer::memory(const LearningConfig& config, std::int64_t parameters, int metrics,
                                int workers) {
  const std::int64_t count = totals_count(parameters, metrics);
  const std::int64_t singles = 2 * parameters + (config.reduction == Reduction::exact ? 0 : count);
  const std::int64_t doubles = totals_workers(workers) * count + norm_blocks(parameters);
  LearnerMemory memory;
  memory.network_bytes =
      sizeof(float) * static_cast<std::size_t>(singles) + sizeof(double) * static_cast<std::size_t>(doubles);
  memory.snapshot_bytes = 2 * sizeof(float) * static_cast<std::size_t>(parameters);
  return memory;
}

Optimizer::Optimizer(const LearningConfig& config, std::int64_t parameters, int metrics, int workers)
    : config_(config),
      parameters_(parameters),
      end_moved_(parameters),
      count_(totals_count(parameters, metrics)),
      learning_rate_(config.learning_rate),
      totals_("maniple::gradient_totals", static_cast<std::size_t>(totals_workers(workers) * count_)),
      norm_blocks_("maniple::norm_blocks", static_cast<std::size_t>(norm_blocks(parameters))),
      moment1_("maniple::adam_moment1", static_cast<std::size_t>(parameters)),
      moment2_("maniple::adam_moment2", static_cast<std::size_t>(parameters)),
      moment1_host_(Kokkos::create_mirror_view(moment1_)),
      moment2_host_(Kokkos::create_mirror_view(moment2_)) {
  if (config.reduction != Reduction::exact)
    single_ = Numbers<float>("maniple::fast_sums", static_cast<std::size_t>(count_));
}

void Optimizer::follow(const LearningConfig& config) {
  config_.learning_rate = config.learning_rate;
  config_.desired_kl = config.desired_kl;
  config_.max_grad_norm = config.max_grad_norm;
}

void Optimizer::move_only(std::int64_t first, std::int64_t end) {
  first_moved_ = first;
  end_moved_ = end;
}

double* Optimizer::clear_totals() {
  Kokkos::deep_copy(totals_, 0.0);
  return totals_.data();
}

std::vector<double> Optimizer::sum_totals(const TotalsSum& sum) {
  std::vector<double> tail = sum.of_shared(totals_, count_, parameters_, single_);
  inexact_ = tail.back();
  tail.pop_back();
  for (double& metric : tail) metric /= scale_;
  return tail;
}

void Optimizer::adapt(double kl) {
  learning_rate_ = scheduled_learning_rate(config_, learning_rate_, kl);
}

void Optimizer::anneal(std::int64_t iteration, std::int64_t update) {
  learning_rate_ = annealed_learning_rate(config_, learning_rate_, iteration, update);
}

std::optional<double> Optimizer::step(const Numbers<float>& parameters) {
  // views of a part have the type of the whole, so that the kernels are the same
  const auto moved = [&](const auto& view) {
    return std::decay_t<decltype(view)>(Kokkos::subview(view, std::pair(first_moved_, end_moved_)));
  };
  const std::int64_t count = end_moved_ - first_moved_;
  const Numbers<double> gradient = moved(totals_);
  const double summed = gradient_norm(gradient, count, norm_blocks_), norm = summed / scale_;
  const bool exact = config_.reduction == Reduction::exact;
  if (inexact_ > 0 || !(summed <= (exact ? kExactLimit / 2 : std::numeric_limits<float>::max()))) {
    scale_ = std::max(scale_ / 16, kLeastScale);
    steps_at_scale_ = 0;
    return std::nullopt;
  }
  const double summed_scale = scale_;
  if (scale_ < 1 && ++steps_at_scale_ == kStepsAtScale) {
    scale_ *= 2;
    steps_at_scale_ = 0;
  }
  ++steps_;
  AdamSettings adam;
  adam.learning_rate = learning_rate_;
  adam.beta1 = config_.adam_beta1;
  adam.beta2 = config_.adam_beta2;
  adam.epsilon = config_.adam_epsilon;
  (config_.optimizer == OptimizerChoice::adamw ? adam.weight_decay : adam.l2_penalty) = config_.weight_decay;
  adam.correction1 = 1 - std::pow(config_.adam_beta1, static_cast<double>(steps_));
  adam.correction2 = 1 - std::pow(config_.adam_beta2, static_cast<double>(steps_));
  adam.bounds = bounds_;
  adam.bounds.first -= first_moved_;
  const double limit = config_.max_grad_norm;
  adam.gradient_scale = 1 / summed_scale;
  if (limit > 0) adam.gradient_scale *= std::min(1.0, limit / (norm + 1e-6));  // as torch's clip_grad_norm_
  apply_adam<float>(adam, gradient, count, moved(parameters), moved(moment1_), moved(moment2_));
  return norm;
}

void Optimizer::describe(Archive& archive, const std::string& name) {
  describe_moments(archive, name);
  archive.replicated(name + "/learning_rate", &learning_rate_, 1, "1", "current learning rate");
}

void Optimizer::describe_moments(Archive& archive, const std::string& name) {
  Kokkos::deep_copy(moment1_host_, moment1_);
  Kokkos::deep_copy(moment2_host_, moment2_);
  archive.replicated(name + "/adam_moment1", moment1_host_.data(), moment1_host_.extent(0), "1",
                     "first moment of each parameter, in the order of the layers, rows padded");
  archive.replicated(name + "/adam_moment2", moment2_host_.data(), moment2_host_.extent(0), "1",
                     "second moment of each parameter");
  archive.replicated(name + "/optimizer_steps", &steps_, 1, "1", "steps of the optimizer");
  archive.replicated(name + "/gradient_scale", &scale_, 1, "1", "that sums of gradients are exact with");
  archive.replicated(name + "/steps_at_scale", &steps_at_scale_, 1, "1", "steps since it changed");
}

void Optimizer::restored() {
  Kokkos::deep_copy(moment1_, moment1_host_);
  Kokkos::deep_copy(moment2_, moment2_host_);
}

}  // namespace maniple
