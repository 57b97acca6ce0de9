// Choice and refusal of devices, and the facts that a session knows about its ranks. Devices are made up: the
// decisions are functions of the reports of ranks.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/base/macros.hpp"
#include "src/base/error.hpp"
#include "src/driver/doctor.hpp"
#include "src/parallel/session.hpp"

namespace maniple {
namespace {

RankPlace place(const std::string& host, int local_rank, int local_ranks, int visible,
                const std::string& uuid, std::vector<int> cores = {0}) {
  RankPlace p;
  p.host = host;
  p.local_rank = local_rank;
  p.local_ranks = local_ranks;
  p.visible_devices = visible;
  p.device_index = visible > 0 ? (visible == 1 ? 0 : local_rank) : -1;
  p.device = {"Test GPU", uuid, "0000:01:00.0"};
  p.cores = std::move(cores);
  return p;
}

TEST(SessionDevices, LocalRankCountsThroughTheVisibleOnes) {
  EXPECT_EQ(choose_device(place("a", 2, 4, 4, "")), 2);
  EXPECT_EQ(choose_device(place("a", 3, 4, 1, "")), 0) << "the scheduler shows each rank its own";
  try {
    choose_device(place("node7", 2, 3, 2, ""));
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("host node7 has 3 ranks and 2 visible devices"),
              std::string::npos);
  }
}

TEST(SessionDevices, SharedDeviceIsNamedByHostUuidAndRanks) {
  EXPECT_EQ(shared_device_error(
                {place("a", 0, 2, 1, "GPU-1"), place("a", 1, 2, 1, "GPU-2"), place("b", 0, 1, 1, "GPU-3")}),
            "");
  EXPECT_EQ(shared_device_error({place("a", 0, 1, 1, "GPU-1"), place("b", 0, 1, 1, "GPU-1")}), "")
      << "hosts may hand out equal names";
  const std::string error = shared_device_error(
      {place("a", 0, 3, 1, "GPU-1"), place("a", 1, 3, 1, "GPU-2"), place("a", 2, 3, 1, "GPU-1")});
  EXPECT_NE(error.find("ranks 0, 2 on host a share device GPU-1"), std::string::npos) << error;
  EXPECT_EQ(shared_device_error({place("a", 0, 2, 0, ""), place("a", 1, 2, 0, "")}), "") << "no devices";
}

TEST(SessionDevices, CodeForAnotherGenerationIsRefused) {
  const Device hopper{.name = "NVIDIA H100", .uuid = "", .pci_bus_id = "", .capability = 90};
  EXPECT_EQ(capability_error(hopper, 90), "");
  Device later = hopper;
  later.capability = 89;
  EXPECT_EQ(capability_error(later, 86), "") << "code of 8.6 runs on 8.9";
  EXPECT_NE(capability_error({.name = "", .uuid = "", .pci_bus_id = "", .capability = 80}, 86), "");
  EXPECT_EQ(capability_error(hopper, 80).substr(0, 103),
            "launch: this build is for GPUs of compute capability 8.0, and NVIDIA H100 has 9.0; build Kokkos "
            "and the");
}

TEST(SessionDevices, PlacesTravelAsText) {
  RankPlace p = place("node 7", 3, 8, 4, "GPU-12", {0, 5, 6});
  p.threads = 12;
  const RankPlace back = RankPlace::from_text(p.to_text());
  EXPECT_EQ(back.to_text(), p.to_text());
  EXPECT_EQ(back.host, "node 7");
  EXPECT_EQ(back.cores, (std::vector<int>{0, 5, 6}));
  EXPECT_EQ(back.device.name, "Test GPU");
  EXPECT_EQ(RankPlace::from_text(RankPlace{}.to_text()).to_text(), RankPlace{}.to_text());
}

TEST(SessionDevices, DoctorWarnsOfSharedCoresAndTooManyThreads) {
  EXPECT_TRUE(placement_warnings({place("a", 0, 2, 0, "", {0}), place("a", 1, 2, 0, "", {1})}).empty());
  EXPECT_TRUE(placement_warnings({place("a", 0, 1, 0, "", {0}), place("b", 0, 1, 0, "", {0})}).empty());
  const std::vector<std::string> warnings =
      placement_warnings({place("a", 0, 2, 0, "", {0, 1, 2}), place("a", 1, 2, 0, "", {1, 2})});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("ranks 0-1 share cores 1-2"), std::string::npos) << warnings[0];
  // one line for a host
  std::vector<RankPlace> crowd(5, place("a", 0, 5, 0, "", {0, 1, 2, 3, 4}));
  crowd.push_back(place("b", 0, 1, 0, "", {0}));
  crowd.back().threads = 2;
  const std::vector<std::string> many = placement_warnings(crowd);
  ASSERT_EQ(many.size(), 2u);
  EXPECT_NE(many.front().find("host a: ranks 0-4 share cores 0-4"), std::string::npos) << many.front();
  EXPECT_NE(many.back().find("host b: 2 threads of 1 rank on 1 core"), std::string::npos) << many.back();
  RankPlace busy = place("a", 0, 1, 0, "", {0, 1});
  busy.threads = 3;
  EXPECT_NE(placement_warnings({busy})[0].find("3 threads of 1 rank on 2 cores"), std::string::npos);
}

// MPI and Kokkos run already in this program: a session joins them and ends neither.
TEST(SessionMpi, JoinsARunningProgram) {
  int argc = 0;
  char** argv = nullptr;
  for (int repeat = 0; repeat < 2; ++repeat) {
    Session session(argc, argv);
    EXPECT_EQ(session.places().size(), static_cast<std::size_t>(session.size()));
    EXPECT_FALSE(session.place().host.empty());
    EXPECT_FALSE(session.place().cores.empty());
    EXPECT_GE(session.place().threads, 1);
    std::int64_t one = 1;
    session.collectives().sum(&one, 1);
    EXPECT_EQ(one, session.size());
  }
  EXPECT_TRUE(Kokkos::is_initialized());
}

}  // namespace
}  // namespace maniple
