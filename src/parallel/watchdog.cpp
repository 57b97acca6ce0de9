// Datagrams between the watchdogs of a job. They are lost now and then, so every question is repeated, and
// every answer may come twice. A number drawn by rank 0 marks those of this job.
#include "src/parallel/watchdog.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "src/base/activity.hpp"
#include "src/base/error.hpp"
#include "src/base/log.hpp"
#include "src/base/process.hpp"
#include "src/parallel/failure.hpp"

namespace maniple {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kDefaultTimeout = 600;  // s, until the deck is read
constexpr std::size_t kNamedRanks = 4;
constexpr double kNever = std::numeric_limits<double>::infinity();

// (of a time that may be infinite: at most ten years, which the clock can count)
Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(s, 3e8)));
}
double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string rounded(double s) {
  char text[32];
  std::snprintf(text, sizeof text, s < 100 ? "%.1f s" : "%.0f s", s);
  return text;
}

std::string stage_of(const RankState& state) {
  std::string text = "in stage '" + std::string(state.stage) + "'";
  if (state.done >= 0) text += " after " + std::string(state.counted) + " " + std::to_string(state.done);
  return text;
}

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), 2 * kNamedRanks); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > 2 * kNamedRanks)
    text += " and " + std::to_string(ranks.size() - 2 * kNamedRanks) + " more";
  return text;
}

// The letter of proc(5) in words; "" when the process cannot be seen from here.
std::string process_state(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return kill(pid, 0) != 0 && errno == ESRCH ? "gone" : "";
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return "";
  switch (text[name_end + 2]) {
    case 'T':
    case 't':
      return "stopped";
    case 'D':
      return "waiting for a device or file system";
    case 'Z':
    case 'X':
      return "gone";
    default:
      return "running";
  }
}

// Whether a process of this host runs the same program as this one: its number may have a new owner.
bool runs_this_program(int pid) {
  const auto program = [](const std::string& of) {
    std::array<char, 4096> path{};
    const ssize_t length = readlink(("/proc/" + of + "/exe").c_str(), path.data(), path.size());
    return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "";
  };
  const std::string mine = program("self");
  return !mine.empty() && program(std::to_string(pid)) == mine;
}

std::vector<in_addr> own_addresses() {
  std::vector<in_addr> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* each = all; each; each = each->ifa_next)
    if (each->ifa_addr && each->ifa_addr->sa_family == AF_INET && (each->ifa_flags & IFF_UP) &&
        !(each->ifa_flags & IFF_LOOPBACK) && found.size() < 8) {
      sockaddr_in address{};
      std::memcpy(&address, each->ifa_addr, sizeof address);
      found.push_back(address.sin_addr);
    }
  freeifaddrs(all);
  return found;
}

enum class Kind : std::int32_t {
  state,   // to two neighbours, now and then
  lead,    // asks a lower rank to look into it; its answer is a report
  query,   // asks for a report
  report,  // own state and that of the neighbours
  end      // the job ends; `silent` may be killed
};

struct Datagram {
  std::uint64_t job = 0;
  std::int32_t from = 0, to = 0;
  Kind kind = Kind::state;
  RankState state;
  struct Neighbour {
    std::int32_t rank = -1;
    double heard_ago = 0;
    RankState state;
  } neighbours[2];
  std::int32_t silent[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
};

}  // namespace

std::optional<double> seconds_to_hang(const std::vector<RankRecord>& ranks, double limit) {
  double longest = 0;
  for (const RankRecord& rank : ranks) {
    if (rank.answers) longest = std::max(longest, rank.state.remaining);
    // one that moved when it was last heard may only be slow to answer
    if (!rank.answers && rank.heard) longest = std::max(longest, limit / 2 - rank.heard_ago);
  }
  if (longest > 0) return longest;
  return std::nullopt;
}

std::string describe_hang(const std::vector<RankRecord>& ranks, double limit) {
  const int size = static_cast<int>(ranks.size());
  const auto record = [&](int rank) -> const RankRecord& { return ranks[static_cast<std::size_t>(rank)]; };
  struct Part {
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max(), most = -1;
    int size = 0, waiting = 0;
  };
  std::map<std::int64_t, Part> parts;
  int silent = 0;
  for (const RankRecord& rank : ranks) {
    silent += !rank.answers;
    if (!rank.answers) continue;
    Part& part = parts[rank.state.part];
    part.fewest = std::min(part.fewest, rank.state.collectives);
    part.most = std::max(part.most, rank.state.collectives);
    ++part.size;
    part.waiting += rank.state.waiting;
  }
  const bool divided = !parts.empty() && parts.rbegin()->first >= 0;
  const auto is_blamed = [&](const RankRecord& rank) {
    if (silent > 0) return !rank.answers;
    if (divided && rank.state.part < 0) return false;  // waits for the parts
    const Part& part = parts.at(rank.state.part);
    if (part.fewest < part.most) return rank.state.collectives == part.fewest;
    return part.waiting == 0 || part.waiting == part.size || !rank.state.waiting;
  };
  std::vector<int> blamed;
  std::map<std::string, std::vector<int>> others;  // by what they do
  for (int rank = 0; rank < size; ++rank) {
    const RankState& state = record(rank).state;
    if (is_blamed(record(rank)))
      blamed.push_back(rank);
    else
      others[(state.waiting ? "waiting for others " : "") + stage_of(state)].push_back(rank);
  }
  std::string text = "run.hang_timeout: no rank moved for " + rounded(limit) + ":";
  for (std::size_t i = 0; i < std::min(blamed.size(), kNamedRanks); ++i) {
    const RankRecord& rank = record(blamed[i]);
    text += (i > 0 ? "; rank " : " rank ") + std::to_string(blamed[i]) + " (host " + rank.host + ", pid " +
            std::to_string(rank.pid) + (rank.process.empty() ? "" : ", " + rank.process) + ") ";
    if (rank.answers)
      text += "has been " + std::string(rank.state.waiting ? "waiting for others " : "") +
              stage_of(rank.state) + " for " + rounded(rank.state.still);
    else if (rank.heard)
      text += "is silent, last heard " + rounded(rank.heard_ago) + " ago " + stage_of(rank.state);
    else
      text += "is silent (nothing was ever heard of it; are UDP datagrams between hosts blocked?)";
  }
  if (blamed.size() > kNamedRanks)
    text += "; the same of " + list(std::vector<int>(blamed.begin() + kNamedRanks, blamed.end()));
  for (const auto& [what, who] : others) text += "; " + list(who) + " " + what;
  return text;
}

class Watchdog::Thread {
 public:
  Thread(Collectives& collectives, const std::vector<std::string>& hosts)
      : rank_(collectives.rank()), size_(collectives.size()) {
    open_socket();
    exchange_addresses(collectives, hosts);
    // two neighbours hear of this rank; one of them most likely on another host
    for (const int distance : {1, size_ / 2}) {
      const int to = (rank_ + distance) % size_, from = (rank_ - distance % size_ + size_) % size_;
      if (to == rank_ || (!neighbours_.empty() && neighbours_[0] == to)) continue;
      neighbours_.push_back(to);
      wards_.push_back({from, {}, {}});
    }
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_ < 0) throw Error(std::string("watchdog: no eventfd: ") + std::strerror(errno));
    // signals are the main thread's business
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Thread() {
    stop_ = true;
    wake();
    thread_.join();
    if (socket_ >= 0) close(socket_);
    close(wake_);
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void set_timeout(double s) {
    timeout_ = s;
    wake();
  }

 private:
  struct Peer {
    std::string host;
    int pid = 0;
    bool is_visible = false;  // its pid means the same here
    std::vector<sockaddr_in> addresses;
  };
  struct Ward {
    int rank = -1;
    std::optional<Clock::time_point> heard;
    RankState state;
  };

  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
  }

  void open_socket() {
    socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t length = sizeof any;
    if (socket_ < 0 || bind(socket_, reinterpret_cast<sockaddr*>(&any), length) != 0 ||
        getsockname(socket_, reinterpret_cast<sockaddr*>(&any), &length) != 0)
      throw Error(std::string("watchdog: no socket for UDP datagrams: ") + std::strerror(errno));
    port_ = any.sin_port;
    const int bytes = 4 << 20;  // answers of many ranks at once; the system may grant less
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }

  void exchange_addresses(Collectives& collectives, const std::vector<std::string>& hosts) {
    if (rank_ == 0) job_ = (std::uint64_t{std::random_device()()} << 32) | std::random_device()();
    collectives.broadcast(&job_, sizeof job_, 0);
    std::ostringstream mine;
    mine << getpid() << ' ' << process_namespace() << ' ' << port_;
    for (const in_addr& address : own_addresses()) mine << ' ' << address.s_addr;
    const std::vector<std::string> all = collectives.gather_text(mine.str());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      Peer peer;
      peer.host = hosts[rank];
      std::istringstream text(all[rank]);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      std::string processes;
      text >> peer.pid >> processes >> address.sin_port;
      const bool is_here = peer.host == hosts[static_cast<std::size_t>(rank_)];
      peer.is_visible = is_here && processes == process_namespace();
      if (is_here) {
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        peer.addresses.push_back(address);
      }
      while (text >> address.sin_addr.s_addr) peer.addresses.push_back(address);
      peers_.push_back(std::move(peer));
    }
  }

  // ---- own state ----
  double limit() const {
    const double timeout = timeout_;
    if (timeout <= 0) return kNever;
    return activity.done.load() < 0 ? kStartPatience * timeout : timeout;
  }
  double tick() const { return timeout_ > 0 ? std::clamp(timeout_ / 20, 0.05, 1.0) : 60.0; }
  // Time allowed for an answer: a busy host runs this thread late.
  double patience() const { return std::clamp(timeout_ / 4, 0.5, 5.0); }

  void observe(Clock::time_point now) {
    // a pause of the process itself, which shows as a long way from tick to tick, counts as two ticks
    const double passed = std::min(seconds_between(last_tick_, now), 2 * tick());
    last_tick_ = now;
    const std::uint64_t progress = activity.progress.load();
    still_ = progress == last_progress_ ? still_ + passed : 0;
    last_progress_ = progress;
  }

  RankState own_state() const {
    RankState state;
    std::snprintf(state.stage, sizeof state.stage, "%s", activity.stage.load());
    std::snprintf(state.counted, sizeof state.counted, "%s", activity.counted.load());
    state.done = activity.done.load();
    state.collectives = activity.collectives.load();
    state.waiting = activity.waiting.load();
    state.part = activity.part.load();
    state.still = still_;
    state.remaining = limit() - still_;
    return state;
  }

  // ---- datagrams ----
  void send(int to, Kind kind, const Datagram& content = {}) {
    Datagram datagram = content;
    datagram.job = job_;
    datagram.from = rank_;
    datagram.to = to;
    datagram.kind = kind;
    datagram.state = own_state();
    if (kind == Kind::report)
      for (std::size_t i = 0; i < wards_.size(); ++i)
        if (wards_[i].heard)
          datagram.neighbours[i] = {wards_[i].rank, seconds_between(*wards_[i].heard, Clock::now()),
                                    wards_[i].state};
    for (const sockaddr_in& address : peers_[static_cast<std::size_t>(to)].addresses)
      sendto(socket_, &datagram, sizeof datagram, 0, reinterpret_cast<const sockaddr*>(&address),
             sizeof address);
  }

  // Takes what arrives until then; wakes early when the program ends.
  void receive_until(Clock::time_point end) {
    for (;;) {
      const double left = seconds_between(Clock::now(), end);
      pollfd sources[2] = {{socket_, POLLIN, 0}, {wake_, POLLIN, 0}};
      poll(sources, 2, left > 0 ? static_cast<int>(left * 1000) + 1 : 0);
      Datagram datagram;
      while (recv(socket_, &datagram, sizeof datagram, 0) == static_cast<ssize_t>(sizeof datagram))
        if (datagram.job == job_ && datagram.to == rank_ && datagram.from >= 0 && datagram.from < size_)
          handle(datagram);
      std::uint64_t ignored = 0;
      const bool woken = read(wake_, &ignored, sizeof ignored) > 0;
      if (stop_ || woken || Clock::now() >= end) return;
    }
  }

  void handle(const Datagram& datagram) {
    const auto note = [&](int rank, double ago, const RankState& state, bool answers) {
      RankRecord& record = records_[static_cast<std::size_t>(rank)];
      if (record.answers || (record.heard && record.heard_ago < ago)) return;
      record.answers = answers;
      record.heard = true;
      record.heard_ago = ago;
      record.state = state;
    };
    switch (datagram.kind) {
      case Kind::state:
        for (Ward& ward : wards_)
          if (ward.rank == datagram.from) {
            ward.heard = Clock::now();
            ward.state = datagram.state;
          }
        break;
      case Kind::lead:
        asked_to_lead_ = true;
        [[fallthrough]];
      case Kind::query:
        send(datagram.from, Kind::report);
        break;
      case Kind::report:
        if (records_.empty()) break;
        note(datagram.from, 0, datagram.state, true);
        for (const auto& neighbour : datagram.neighbours)
          if (neighbour.rank >= 0 && neighbour.rank < size_)
            note(neighbour.rank, neighbour.heard_ago, neighbour.state, false);
        break;
      case Kind::end:
        leave(datagram);
        break;
    }
  }

  // ---- looking into it ----
  // Asks ranks [first, last) until all have answered or patience ends; returns whether any has.
  bool ask(int first, int last, Kind kind, double time) {
    constexpr int repeats = 5;
    for (int repeat = 0; repeat < repeats && !stop_; ++repeat) {
      bool missing = false;
      for (int rank = first; rank < last; ++rank) {
        if (rank == rank_ || records_[static_cast<std::size_t>(rank)].answers) continue;
        missing = true;
        send(rank, kind);
        if (rank % 64 == 63) receive_until(Clock::now());  // before answers overflow the buffer
      }
      if (!missing) break;
      const auto end = Clock::now() + seconds(time / repeats);
      const auto all_answered = [&] {
        for (int rank = first; rank < last; ++rank)
          if (rank != rank_ && !records_[static_cast<std::size_t>(rank)].answers) return false;
        return true;
      };
      while (!stop_ && Clock::now() < end && !all_answered())
        receive_until(std::min(end, Clock::now() + std::chrono::milliseconds(5)));
    }
    for (int rank = first; rank < last; ++rank)
      if (rank != rank_ && records_[static_cast<std::size_t>(rank)].answers) return true;
    return false;
  }

  // Whether a lower rank answers: then it looks into it. More and more of them are asked at a time.
  bool others_lead() {
    for (int first = 0, count = 1; first < rank_; first += count, count *= 2)
      if (ask(first, std::min(rank_, first + count), Kind::lead, patience())) return true;
    return false;
  }

  void inquire() {
    asked_to_lead_ = false;
    records_.assign(static_cast<std::size_t>(size_), {});
    const bool other = others_lead();
    if (!other && !stop_) ask(0, size_, Kind::query, patience());
    observe(Clock::now());
    const double allowed = limit();
    next_inquiry_ = Clock::now() + seconds(std::max(patience(), tick()));
    if (!other && !stop_ && allowed < kNever) {
      RankRecord& mine = records_[static_cast<std::size_t>(rank_)];
      mine.answers = mine.heard = true;
      mine.state = own_state();
      for (std::size_t r = 0; r < peers_.size(); ++r) {
        records_[r].host = peers_[r].host;
        records_[r].pid = peers_[r].pid;
        if (!records_[r].answers && peers_[r].is_visible) records_[r].process = process_state(peers_[r].pid);
      }
      for (const Ward& ward : wards_) {
        RankRecord& record = records_[static_cast<std::size_t>(ward.rank)];
        if (record.answers || !ward.heard) continue;
        record.heard = true;
        record.heard_ago = seconds_between(*ward.heard, Clock::now());
        record.state = ward.state;
      }
      if (const auto wait = seconds_to_hang(records_, allowed))
        next_inquiry_ = Clock::now() + seconds(std::max(*wait, tick()));
      else
        end_job(allowed);
    }
    records_.clear();
  }

  void end_job(double allowed) {
    Datagram content;
    std::size_t count = 0;
    for (int rank = 0; rank < size_; ++rank)
      if (!records_[static_cast<std::size_t>(rank)].answers && count < std::size(content.silent))
        content.silent[count++] = rank;
    fail_without_mpi(describe_hang(records_, allowed), ExitCode::error, [&] {
      for (int repeat = 0; repeat < 2; ++repeat)
        for (int rank = 0; rank < size_; ++rank)
          if (rank != rank_) send(rank, Kind::end, content);
    });
  }

  // The leader has said why and left with an error, and a launcher ends the job for that. If it does not,
  // this rank leaves by itself, and takes silent ones of its host along, which cannot.
  [[noreturn]] void leave(const Datagram& datagram) {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    for (const std::int32_t rank : datagram.silent) {
      if (rank < 0 || rank >= size_) continue;
      const Peer& peer = peers_[static_cast<std::size_t>(rank)];
      if (peer.is_visible && runs_this_program(peer.pid)) kill(peer.pid, SIGKILL);
    }
    std::_Exit(static_cast<int>(ExitCode::error));
  }

  void run() {
    last_tick_ = Clock::now();
    Clock::time_point next_state = last_tick_;
    while (!stop_) {
      receive_until(Clock::now() + seconds(tick()));
      const auto now = Clock::now();
      observe(now);
      if (timeout_ <= 0 || stop_) continue;
      if (now >= next_state) {
        next_state = now + seconds(std::min(15.0, timeout_ / 20));
        for (const int rank : neighbours_) send(rank, Kind::state);
      }
      if ((still_ > limit() || asked_to_lead_) && now >= next_inquiry_) inquire();
    }
  }

  const int rank_, size_;
  int socket_ = -1, wake_ = -1;
  in_port_t port_ = 0;
  std::uint64_t job_ = 0;
  std::vector<Peer> peers_;
  std::vector<int> neighbours_;  // hear of this rank
  std::vector<Ward> wards_;      // this rank hears of them
  std::atomic<double> timeout_{kDefaultTimeout};
  std::atomic<bool> stop_{false};

  // of the thread alone
  Clock::time_point last_tick_{}, next_inquiry_{};
  std::uint64_t last_progress_ = 0;
  double still_ = 0;  // s in which the main thread did not move and this one ran
  bool asked_to_lead_ = false;
  std::vector<RankRecord> records_;  // while looking into it
  std::thread thread_;
};

Watchdog::Watchdog(Collectives& collectives, const std::vector<std::string>& hosts)
    : thread_(std::make_unique<Thread>(collectives, hosts)) {}
Watchdog::~Watchdog() = default;

void Watchdog::set_timeout(double seconds) {
  thread_->set_timeout(seconds);
}

}  // namespace maniple
