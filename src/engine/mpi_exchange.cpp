#include "engine/mpi_exchange.h"

#include <cstdlib>
#include <initializer_list>

#ifdef ZEROULP_HAVE_MPI
#include <mpi.h>

#include <vector>

#include "base/check.h"
#endif

namespace zeroulp::engine {

#ifdef ZEROULP_HAVE_MPI
namespace {

class MpiExchange : public Exchange {
 public:
  MpiExchange() {
    int provided = 0;
    ZU_CHECK(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS);
    ZU_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank_) == MPI_SUCCESS && MPI_Comm_size(MPI_COMM_WORLD, &size_) == MPI_SUCCESS);
  }
  ~MpiExchange() override { MPI_Finalize(); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void max(std::span<uint16_t> values) override {
    ZU_CHECK(MPI_Allreduce(MPI_IN_PLACE, values.data(), count(values.size()), MPI_UINT16_T, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS);
  }
  void sum(std::span<int64_t> values) override {
    ZU_CHECK(MPI_Allreduce(MPI_IN_PLACE, values.data(), count(values.size()), MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
  }
  void gather(std::span<const float> mine, std::span<const int64_t> counts, std::span<float> all) override {
    std::vector<int> sizes, places;
    int64_t at = 0;
    for (const int64_t c : counts) {
      sizes.push_back(count(static_cast<size_t>(c)));
      places.push_back(count(static_cast<size_t>(at)));
      at += c;
    }
    ZU_CHECK(MPI_Allgatherv(mine.data(), count(mine.size()), MPI_FLOAT, all.data(), sizes.data(), places.data(), MPI_FLOAT,
                            MPI_COMM_WORLD) == MPI_SUCCESS);
  }

 private:
  static int count(size_t n) {
    ZU_CHECK(n < (size_t{1} << 31));
    return static_cast<int>(n);
  }
  int rank_ = 0, size_ = 1;
};

}  // namespace

bool built_with_mpi() { return true; }
bool launched_by_mpi() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr; }
Result<std::unique_ptr<Exchange>> make_mpi_exchange() { return std::unique_ptr<Exchange>(std::make_unique<MpiExchange>()); }
#else
bool built_with_mpi() { return false; }
bool launched_by_mpi() { return false; }
Result<std::unique_ptr<Exchange>> make_mpi_exchange() { return unavailable("this build has no MPI; configure with ZEROULP_MPI=ON where an MPI library is installed"); }
#endif

namespace {

int number_from(std::initializer_list<const char*> names, int absent) {
  for (const char* name : names)
    if (const char* text = std::getenv(name); text != nullptr && launched_by_mpi()) return std::atoi(text);
  return absent;
}

}  // namespace

int launch_rank() { return number_from({"OMPI_COMM_WORLD_RANK", "PMI_RANK"}, 0); }
int launch_size() { return number_from({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 1); }

}  // namespace zeroulp::engine
