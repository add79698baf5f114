// A pretended cuDNN. Its descriptors keep what they are told. When a graph is finished, it becomes a program of
// operations on tensors, which is interpreted on the host, by the documentation alone: dimensions, strides, groups,
// padding, broadcasting, the types between operations. A wrong description gives wrong numbers, or is refused.
//
// Its heuristics list first what must not be taken: an engine that wants more workspace than there is, one that adds in
// any sequence, and for float32 one that rounds to TF32.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/cuda/cuda_table.h"
#include "tests/cuda/fake_cuda.h"

namespace snug::core::cuda::fake_cudnn {

struct Program;  // what a finished graph is

struct Attribute {
  cudnnBackendAttributeType_t type;
  int64_t count;
  std::vector<std::byte> bytes;
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finished = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes = {};
  std::shared_ptr<const Program> program = nullptr;  // a graph's, and what is made of it
  int engine = 0;                                    // an engine's number, and of what is made of it
};

cudnnStatus_t Set(Descriptor& to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values);
cudnnStatus_t Get(const Descriptor& from, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  int64_t room, int64_t* count, void* values);
// Checks what it was told.
cudnnStatus_t Finish(Descriptor& descriptor, FakeLibraries libraries);
// Puts into `work` what has to be done on the stream, or returns why it cannot be done.
cudnnStatus_t Bind(const Descriptor& plan, const Descriptor& pack, FakeLibraries libraries,
                   std::function<void()>* work);

}  // namespace snug::core::cuda::fake_cudnn
