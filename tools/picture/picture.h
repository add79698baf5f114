// Draws a plan as address against time, with a rectangle for each buffer: either as a self-contained page with all
// strategies to choose from (it needs no network), or as an SVG of one of them for print.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug::core::cli {

struct PictureBuffer {
  std::string name, op;
  std::string kind;  // "activations", "gradients", ...; decides the colour
  int64_t size_bytes = 0;
  int64_t offset = 0;
  int32_t first = 0;  // positions in the order, both inclusive
  int32_t last = 0;
  int32_t producer = -1;  // a position; -1: it is there before the first node
  std::vector<int32_t> readers;
  bool written_over = false;  // an output is written over it at `last`, and the bytes then count only for that one
};

struct PictureStrategy {
  std::string name;
  std::vector<std::string> nodes;  // indexed by position
  std::vector<PictureBuffer> buffers;
  int64_t total = 0;
  int64_t lower_bound = 0;
  bool proven = false;
  double seconds = 0;
};

// The arena of a loop's body: what a round of it is made of.
struct PictureBody {
  std::string loop;  // the node's name, behind those of the loops around it
  int64_t rounds = 0;
  bool bound = false;  // there are at most so many rounds
  int64_t workspace_bytes = 0;
  PictureStrategy plan;
};

struct Picture {
  std::string network;
  int64_t batch = 1;
  std::string mode;         // "training", "forward only"
  int64_t state_bytes = 0;  // bytes in addition to the arena that is drawn
  std::string chosen;       // the strategy shown first
  std::vector<PictureStrategy> strategies;
  std::vector<PictureBody> bodies;
};

std::string PicturePage(const Picture& picture);
std::string PictureSvg(const Picture& picture);  // shows the chosen strategy

// The most bytes that are live at once, and the first position at which they are.
struct LivePeak {
  int64_t bytes = 0;
  int32_t position = 0;
};
LivePeak FindLivePeak(const PictureStrategy& strategy);

// Returns the colour of a kind, the same in page and SVG.
std::string KindColour(const std::string& kind);

}  // namespace snug::core::cli
