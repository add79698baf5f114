// Writes a flat network as text (short, as one would write it by hand) or binary. The same network always gives the
// same bytes, and what is written loads as the same network (proto/text_loader.h).
#pragma once

#include <absl/status/status.h>

#include <string>

namespace snug::proto {
class Network;
}

namespace snug::core {

std::string WriteNetworkText(const proto::Network& network);

std::string WriteNetworkBinary(const proto::Network& network);

// Chooses the form by the file's name: *.pb is binary, everything else is text.
absl::Status SaveNetworkFile(const proto::Network& network, const std::string& path);

}  // namespace snug::core
