#include "tests/proto/random_network.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "proto/network.pb.h"

namespace snug::core::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  proto::Network Network() {
    proto::Network network;
    if (Chance()) network.set_name(AnyString());
    if (Chance()) network.set_batch(1 + Below(1000));
    std::vector<std::string> values;
    for (int i = Below(4); i >= 0; --i) {
      proto::Input* input = network.add_input();
      input->set_name(absl::StrCat("in", i));
      values.push_back(input->name());
      for (int d = Below(4); d > 0; --d) input->mutable_shape()->add_dim(1 + Below(100));
      if (Chance()) input->set_no_batch(Chance());
      if (!Chance()) continue;
      input->set_dtype(proto::INT32);
      if (Chance()) input->set_max_value(1 + Below(1000));
    }
    for (int i = Below(30); i >= 0; --i) AddLayer(absl::StrCat("b", i, ".l-", Below(9), "/x_"), &values, &network);
    AddSubnetwork(&network);
    for (int i = Below(3); i > 0; --i) network.add_objective(Pick(values));
    for (int i = Below(3); i > 0; --i) network.add_output(Pick(values));
    if (Chance()) Fill(network.mutable_optimizer());
    return network;
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  bool Chance() { return Below(2) == 0; }
  template <class T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int>(from.size())))];
  }

  // `network` may be a sub-network.
  template <class Network>
  void AddLayer(const std::string& name, std::vector<std::string>* values, Network* network) {
    proto::Layer* layer = network->add_layer();
    layer->set_name(name);
    for (int i = Below(4); i > 0; --i) {
      std::string input = Pick(*values);
      if (input[0] == 'b' && Chance()) absl::StrAppend(&input, ":", Below(3));
      layer->add_input(input);
    }
    for (int i = Below(3); i > 0; --i) Fill(layer->add_param());
    std::vector<const FieldDescriptor*> ops;
    for (int i = 0; i < layer->GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* field = layer->GetDescriptor()->field(i);
      if (field->containing_oneof() != nullptr) ops.push_back(field);
    }
    Fill(layer->GetReflection()->MutableMessage(layer, Pick(ops)));
    values->push_back(name);
  }

  void Fill(Message* m) {
    for (int i = 0; i < m->GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* field = m->GetDescriptor()->field(i);
      if (!Chance() || (field->containing_oneof() != nullptr && Chance())) continue;
      if (field->containing_oneof() != nullptr && m->GetReflection()->HasOneof(*m, field->containing_oneof())) continue;
      for (int k = field->is_repeated() ? Below(5) : 1; k > 0; --k) Set(m, field);
    }
  }

  void Set(Message* m, const FieldDescriptor* f) {
    const auto* r = m->GetReflection();
    const bool many = f->is_repeated();
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64:
        return many ? r->AddInt64(m, f, Integer()) : r->SetInt64(m, f, Integer());
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return many ? r->AddDouble(m, f, Double()) : r->SetDouble(m, f, Double());
      case FieldDescriptor::CPPTYPE_BOOL:
        return many ? r->AddBool(m, f, Chance()) : r->SetBool(m, f, Chance());
      case FieldDescriptor::CPPTYPE_STRING:
        return many ? r->AddString(m, f, StringFor(*m)) : r->SetString(m, f, StringFor(*m));
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto* value = f->enum_type()->value(Below(f->enum_type()->value_count()));
        return many ? r->AddEnum(m, f, value) : r->SetEnum(m, f, value);
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Fill(many ? r->AddMessage(m, f) : r->MutableMessage(m, f));
      default:
        UnknownType(f);
    }
  }

  // The schema of model files uses the types above only; another one needs a line there.
  static void UnknownType(const FieldDescriptor* f) {
    std::fprintf(stderr, "no random value for %s\n", std::string(f->full_name()).c_str());
    std::abort();
  }

  int64_t Integer() {
    const std::array<int64_t, 6> special = {
        0, -1, 1, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), int64_t{1} << 53};
    if (Chance()) return special[static_cast<size_t>(Below(6))];
    return static_cast<int64_t>((uint64_t{random_()} << 32) | random_()) >> Below(64);
  }

  double Double() {
    const std::array<double, 10> special = {0.0,
                                            -0.0,
                                            1e22,
                                            0.1,
                                            -1e-320,
                                            9223372036854775808.0,
                                            -9223372036854775808.0,
                                            std::numeric_limits<double>::infinity(),
                                            -std::numeric_limits<double>::infinity(),
                                            123456789012345678.0};
    if (Chance()) return special[static_cast<size_t>(Below(10))];
    const double any = std::bit_cast<double>((uint64_t{random_()} << 32) | random_());
    return std::isnan(any) ? 0.5 : any;
  }

  // What loops and branches name is there: in the one sub-network, everything is called as it is.
  std::string StringFor(const Message& m) {
    const std::string name(m.GetDescriptor()->name());
    const bool control = name == "Loop" || name == "Branch" || name == "Carry" || name == "Scan" || name == "Collect";
    return control ? "sub" : AnyString();
  }

  void AddSubnetwork(proto::Network* network) {
    proto::Subnetwork* subnetwork = network->add_subnetwork();
    subnetwork->set_name("sub");
    subnetwork->add_input("in0");
    std::vector<std::string> values = {"in0"};
    for (int i = Below(3); i > 0; --i) AddLayer(absl::StrCat("b.", i), &values, subnetwork);
    proto::SubnetworkOutput* output = subnetwork->add_output();
    output->set_name("sub");
    output->set_value(Pick(values));
  }

  std::string AnyString() {
    std::string text;
    for (int n = Below(6); n > 0; --n) {
      text += Chance() ? std::string(1, static_cast<char>(Below(128)))
                       : Pick(std::vector<std::string>{"$x", "${y}", "\"", "\\", "é", "\n", "7", "'", "#"});
    }
    return text;
  }

  std::mt19937 random_;
};

}  // namespace

proto::Network RandomNetwork(uint32_t seed) { return Generator(seed).Network(); }

}  // namespace snug::core::testing
