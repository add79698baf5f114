#include "memory/allocator/block_pool.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "memory/problem.h"

namespace snug::core::memory {

BlockPool::BlockPool(const Options& options, CountedSource* source)
    : options_(options),
      source_(source),
      store_(/*in_block=*/options.header_bytes > 0 && source->source().host_accessible()) {
  SNUG_CHECK(options.header_bytes == 0 || options.header_bytes >= kBlockHeaderBytes);
  SNUG_CHECK(options.header_bytes % options.alignment == 0);
}

BlockPool::~BlockPool() {
  for (const auto& chunk : chunks_) source_->Free(chunk->base, chunk->bytes);
}

int64_t BlockPool::BlockBytes(int64_t bytes) const {
  return options_.header_bytes + AlignUp(bytes, options_.alignment);
}

int64_t BlockPool::RequestThatFits(int64_t chunk_bytes) const {
  return std::max<int64_t>(0, chunk_bytes / options_.alignment * options_.alignment - options_.header_bytes);
}

int64_t BlockPool::largest_free_bytes() const {
  const int64_t pooled = std::min(free_.largest_bytes(), options_.growth.max_pooled_bytes);
  return RequestThatFits(pooled);
}

absl::StatusOr<Grant> BlockPool::Take(int64_t bytes) {
  const int64_t needed = BlockBytes(bytes);
  if (needed > options_.growth.max_pooled_bytes) {
    SNUG_ASSIGN_OR_RETURN(Chunk * chunk, AddChunk(needed));
    chunk->direct = true;
    return Use(chunk->first);
  }
  Block* block = free_.BestFit(needed);
  if (block == nullptr) {
    SNUG_ASSIGN_OR_RETURN(block, Grow(needed));
  } else {
    SNUG_RETURN_IF_ERROR(CheckIntact(block));
    free_.Remove(block);
  }
  // A rest that is too small for a block stays with this one.
  if (block->bytes - needed > options_.header_bytes) SplitOff(block, needed);
  return Use(block);
}

absl::Status BlockPool::Give(Block* block) {
  SNUG_RETURN_IF_ERROR(CheckIntact(block));
  if (block->chunk->direct) {
    RemoveChunk(block->chunk);
    return absl::OkStatus();
  }
  Block* const left = block->left;
  Block* const right = block->right;
  if (left != nullptr) SNUG_RETURN_IF_ERROR(CheckIntact(left));
  if (right != nullptr) SNUG_RETURN_IF_ERROR(CheckIntact(right));
  block->free = 1;
  if (right != nullptr && right->free != 0) {
    free_.Remove(right);
    MergeRight(block);
  }
  if (left != nullptr && left->free != 0) {
    free_.Remove(left);
    MergeRight(left);
    block = left;
  }
  free_.Add(block);
  store_.Seal(block);
  return absl::OkStatus();
}

int64_t BlockPool::ReleaseIdle() {
  int64_t released = 0;
  for (size_t i = chunks_.size(); i-- > 0;) {  // backwards, because a removal moves the last one here
    Chunk* const chunk = chunks_[i].get();
    Block* const only = chunk->first;
    if (only->free == 0 || only->right != nullptr) continue;
    released += chunk->bytes;
    free_.Remove(only);
    RemoveChunk(chunk);
  }
  return released;
}

bool BlockPool::Contains(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  return std::any_of(chunks_.begin(), chunks_.end(),
                     [byte](const auto& chunk) { return byte >= chunk->base && byte < chunk->base + chunk->bytes; });
}

void BlockPool::Visit(const std::function<void(const Block&)>& visit) const {
  std::vector<const Chunk*> sorted;
  for (const auto& chunk : chunks_) sorted.push_back(chunk.get());
  std::sort(sorted.begin(), sorted.end(), [](const Chunk* a, const Chunk* b) { return a->position < b->position; });
  for (const Chunk* chunk : sorted) {
    for (const Block* block = chunk->first; block != nullptr; block = block->right) visit(*block);
  }
}

absl::StatusOr<Chunk*> BlockPool::AddChunk(int64_t bytes) {
  SNUG_ASSIGN_OR_RETURN(std::byte * base, source_->Allocate(bytes));
  Chunk* const chunk = chunks_.emplace_back(std::make_unique<Chunk>()).get();
  chunk->base = base;
  chunk->bytes = bytes;
  chunk->position = next_position_;
  chunk->index = chunks_.size() - 1;
  next_position_ += bytes;
  Block* const block = store_.New(base);
  block->bytes = bytes;
  block->chunk = chunk;
  chunk->first = block;
  return chunk;
}

absl::StatusOr<Block*> BlockPool::Grow(int64_t needed) {
  const int64_t wanted = ChunkBytes(options_.growth, needed, /*first=*/!grown_,
                                    options_.growth.fraction > 0 ? source_->available_bytes() : 0);
  absl::StatusOr<Chunk*> chunk = AddChunk(wanted / options_.alignment * options_.alignment);
  // The source may have no room for a chunk of the usual size, but enough for this request.
  if (!chunk.ok() && wanted > needed) chunk = AddChunk(needed);
  if (!chunk.ok()) return std::move(chunk).status();
  grown_ = true;
  return (*chunk)->first;
}

void BlockPool::RemoveChunk(Chunk* chunk) {
  store_.Delete(chunk->first);
  source_->Free(chunk->base, chunk->bytes);
  const size_t index = chunk->index;
  std::swap(chunks_[index], chunks_.back());
  chunks_[index]->index = index;
  chunks_.pop_back();
}

Grant BlockPool::Use(Block* block) {
  block->free = 0;
  store_.Seal(block);
  return {AddressOf(*block), block, block->bytes, block->chunk->direct};
}

void BlockPool::SplitOff(Block* block, int64_t bytes) {
  Block* const rest = store_.New(block->start + bytes);
  rest->bytes = block->bytes - bytes;
  rest->chunk = block->chunk;
  rest->left = block;
  rest->right = block->right;
  rest->free = 1;
  if (rest->right != nullptr) SetLeft(rest->right, rest);
  block->right = rest;
  block->bytes = bytes;
  free_.Add(rest);
  store_.Seal(rest);
}

void BlockPool::SetLeft(Block* block, Block* left) {
  const bool intact = store_.Intact(block);  // looked at before Seal, which must not mend a broken one
  block->left = left;
  if (intact) store_.Seal(block);
}

void BlockPool::MergeRight(Block* block) {
  Block* const right = block->right;
  block->bytes += right->bytes;
  block->right = right->right;
  if (block->right != nullptr) SetLeft(block->right, block);
  store_.Delete(right);
}

absl::Status BlockPool::CheckIntact(const Block* block) const {
  if (store_.Intact(block)) return absl::OkStatus();
  // The block's address is known, but what its header says can no longer be believed.
  return absl::DataLossError(absl::StrCat("the header of the block at ",
                                          absl::Hex(reinterpret_cast<uintptr_t>(block) + kBlockHeaderBytes),
                                          " was written over: somebody wrote past the end of the block before it, or "
                                          "before the start of this one"));
}

absl::Status BlockPool::Check() const {
  int64_t free_bytes = 0;
  for (const auto& chunk : chunks_) {
    const Block* left = nullptr;
    const std::byte* at = chunk->base;
    for (const Block* block = chunk->first; block != nullptr; left = block, block = block->right) {
      SNUG_RETURN_IF_ERROR(CheckIntact(block));
      const bool fits = block->start == at && block->left == left && block->chunk == chunk.get() && block->bytes > 0;
      const bool merged = left == nullptr || left->free == 0 || block->free == 0;
      if (!fits || !merged)
        return absl::InternalError(
            absl::StrCat("the block at offset ", at - chunk->base, " does not fit its neighbours"));
      if (block->free) free_bytes += block->bytes;
      at += block->bytes;
    }
    if (at != chunk->base + chunk->bytes) return absl::InternalError("the blocks of a chunk do not fill it");
  }
  if (free_bytes != free_.bytes()) return absl::InternalError("the index of free blocks and the blocks differ");
  return absl::OkStatus();
}

}  // namespace snug::core::memory
