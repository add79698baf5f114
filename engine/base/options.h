// A node's options: an opaque immutable handle with canonical bytes. Layers below `ops` compare, hash and print it; ops
// and the importer, which know protobuf, put a message in and get it back by its type. Options may be null.
#pragma once

#include <absl/strings/string_view.h>

#include <memory>
#include <string>

#include "engine/base/status.h"

namespace snug::core {

class Options {
 public:
  Options() = default;
  // Message is a generated protobuf class (this header stays free of protobuf: see proto/options.h for the maker), or,
  // for Held, anything.
  template <class Message>
  Options(std::shared_ptr<const Message> message, std::string type, std::string bytes, std::string text)
      : data_(std::make_shared<Data>(Data{std::move(message), std::move(type), std::move(bytes), std::move(text)})) {}

  bool empty() const { return data_ == nullptr; }
  absl::string_view type() const { return empty() ? "" : absl::string_view(data_->type); }    // full message name
  absl::string_view bytes() const { return empty() ? "" : absl::string_view(data_->bytes); }  // canonical
  absl::string_view text() const { return empty() ? "" : absl::string_view(data_->text); }    // on one line, for dumps

  // Returns the message, or the default instance where there are no options. Asking for another type is a bug of ours.
  template <class Message>
  const Message& Get() const {
    if (empty()) return Message::default_instance();
    SNUG_CHECK_MSG(data_->type == Message::descriptor()->full_name(), data_->type);
    return *static_cast<const Message*>(data_->message.get());
  }

  // What was put in where it is no protobuf message, by the type's name.
  template <class T>
  const T& Held(absl::string_view type) const {
    SNUG_CHECK_MSG(!empty() && data_->type == type, type);
    return *static_cast<const T*>(data_->message.get());
  }

  friend bool operator==(const Options& a, const Options& b) { return a.type() == b.type() && a.bytes() == b.bytes(); }

 private:
  struct Data {
    std::shared_ptr<const void> message;
    std::string type, bytes, text;
  };
  std::shared_ptr<const Data> data_;
};

}  // namespace snug::core
