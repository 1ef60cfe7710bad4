// Graphs and the names of their nodes. Names come from the driver, so that kernels launched through the driver API have one too.
#include <cuda.h>
#include <cxxabi.h>

#include <cstdlib>
#include <utility>

#include "device/device.h"
#include "device/error.h"

namespace zeroulp::device {
namespace {

// The driver is found through the runtime: the program links against no libcuda and starts on machines without one.
template <class Fn>
Fn* driver_call(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how{};
  if (cudaGetDriverEntryPointByVersion(name, &found, 12030, cudaEnableDefault, &how) != cudaSuccess) return nullptr;
  return how == cudaDriverEntryPointSuccess ? reinterpret_cast<Fn*>(found) : nullptr;
}

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string out = status == 0 ? text : name;
  std::free(text);
  return out;
}

std::string kernel_name(cudaGraphNode_t node) {
  using GetParams = CUresult(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*);
  using FuncName = CUresult(const char**, CUfunction);
  using KernelName = CUresult(const char**, CUkernel);
  static auto* const get_params = driver_call<GetParams>("cuGraphKernelNodeGetParams");
  static auto* const func_name = driver_call<FuncName>("cuFuncGetName");
  static auto* const kern_name = driver_call<KernelName>("cuKernelGetName");
  CUDA_KERNEL_NODE_PARAMS params{};
  const char* name = nullptr;
  if (get_params == nullptr || get_params(node, &params) != CUDA_SUCCESS) return "kernel";
  if (params.func != nullptr && func_name != nullptr && func_name(&name, params.func) == CUDA_SUCCESS) return demangled(name);
  if (params.kern != nullptr && kern_name != nullptr && kern_name(&name, params.kern) == CUDA_SUCCESS) return demangled(name);
  return "kernel";
}

std::string node_name(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  if (cudaGraphNodeGetType(node, &type) != cudaSuccess) return "unknown";
  switch (type) {
    case cudaGraphNodeTypeKernel: return kernel_name(node);
    case cudaGraphNodeTypeMemcpy: return "memcpy";
    case cudaGraphNodeTypeMemset: return "memset";
    case cudaGraphNodeTypeHost: return "host";
    default: return fmt::format("node of type {}", static_cast<int>(type));
  }
}

}  // namespace

Status Graph::begin(const Stream& stream) {
  ZU_TRY(stream.synchronize());
  return check(cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal), "recording a graph");
}

Result<Graph> Graph::end(const Stream& stream) {
  cudaGraph_t graph = nullptr;
  const cudaError_t launches = cudaGetLastError();
  const Status ended = check(cudaStreamEndCapture(stream.handle(), &graph), "recording a graph");
  ZU_TRY(check(launches, "launching a kernel into a graph"));
  ZU_TRY(ended);
  Graph out;
  size_t count = 0;
  cudaError_t error = cudaGraphGetNodes(graph, nullptr, &count);
  std::vector<cudaGraphNode_t> nodes(count);
  if (error == cudaSuccess && count > 0) error = cudaGraphGetNodes(graph, nodes.data(), &count);
  for (const cudaGraphNode_t node : nodes) out.nodes_.push_back(node_name(node));
  if (error == cudaSuccess) error = cudaGraphInstantiate(reinterpret_cast<cudaGraphExec_t*>(&out.executable_), graph, 0);
  cudaGraphDestroy(graph);
  ZU_TRY(check(error, "making a graph ready"));
  return out;
}

Graph::Graph(Graph&& o) noexcept : executable_(std::exchange(o.executable_, nullptr)), nodes_(std::move(o.nodes_)) {}
Graph& Graph::operator=(Graph&& o) noexcept {
  std::swap(executable_, o.executable_);
  std::swap(nodes_, o.nodes_);
  return *this;
}
Graph::~Graph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
}
void Graph::launch(const Stream& stream) const { cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), stream.handle()); }

}  // namespace zeroulp::device
