// Ops that the test brings: what the library cannot know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <new>
#include <stdexcept>

#include "tests/embed/networks.h"

namespace snug::testing {
namespace {

using ::testing::HasSubstr;

// y = x^p, in place; its gradient reads x alone.
Op Power() {
  Op op{.name = "power", .doc = "y = x^exponent"};
  op.infer = [](const OpCall& call, std::vector<TensorType>* outputs) {
    if (call.number("exponent", 2) < 1) {
      return Status(StatusCode::kInvalidArgument, "option \"exponent\": expected at least 1");
    }
    outputs->push_back(call.input(0).type());
    return Status();
  };
  op.kernel = [](const OpCall& call) {
    const auto x = call.input(0).as<const float>();
    const auto y = call.output(0).as<float>();
    for (size_t i = 0; i < x.size(); ++i) y[i] = std::pow(x[i], static_cast<float>(call.number("exponent", 2)));
    return Status();
  };
  op.gradient = [](const OpCall& call) {
    const auto p = static_cast<float>(call.number("exponent", 2));
    const auto x = call.input(0).as<const float>();
    const auto dy = call.output_gradient(0).as<const float>();
    const auto dx = call.input_gradient(0).as<float>();
    if (call.output(0).present()) return Status(StatusCode::kInternal, "y was not asked for");
    for (size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * p * std::pow(x[i], p - 1);
    return Status();
  };
  op.gradient_reads_outputs = false;
  return op;
}

// y = x * gain, one gain for each column: an op with a parameter.
Op Gain() {
  Op op{.name = "gain", .doc = "y = x gain"};
  op.parameters = [](const OpCall& call, std::vector<OpParameter>* parameters) {
    parameters->push_back({.name = "gain",
                           .shape = {call.input(0).shape.back()},
                           .init = OpParameter::Init::kConstant,
                           .value = call.number("start", 1)});
    return Status();
  };
  op.infer = [](const OpCall& call, std::vector<TensorType>* outputs) {
    outputs->push_back(call.input(0).type());
    return Status();
  };
  op.kernel = [](const OpCall& call) {
    const auto x = call.input(0).as<const float>(), gain = call.input(1).as<const float>();
    const auto y = call.output(0).as<float>();
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * gain[i % gain.size()];
    return Status();
  };
  op.gradient = [](const OpCall& call) {
    const auto x = call.input(0).as<const float>(), gain = call.input(1).as<const float>();
    const auto dy = call.output_gradient(0).as<const float>();
    const auto dx = call.input_gradient(0).as<float>(), dgain = call.input_gradient(1).as<float>();
    for (size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * gain[i % gain.size()];
    for (float& d : dgain) d = 0;
    for (size_t i = 0; i < dy.size() && !dgain.empty(); ++i) dgain[i % dgain.size()] += dy[i] * x[i];
    return Status();
  };
  op.in_place = true;
  return op;
}

// x -> gain -> power -> sum.
Network SumOfPowers(Op power) {
  Network network("powers");
  network.AddOp(std::move(power)).AddOp(Gain()).Input("x", {2});
  network.Layer("g", "gain", {"x"}, {{"start", 0.5}});
  network.Layer("p", "power", {"g"}, {{"exponent", 3}});
  network.Layer("sum", "reduce_sum", {"p"}).Objective("sum").Output("p");
  network.Optimizer({{"learning_rate", 1}});
  return network;
}

TEST(OutsideOp, RunsAndIsDifferentiated) {
  Result<Session> session = Session::Create(SumOfPowers(Power()));
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->Step({{"x", {2.F, 4.F}}}).ok());
  EXPECT_THAT(*session->Fetch<float>("p"), ::testing::ElementsAre(1, 8));
  // d(sum)/d(gain) = 3 (gain x)^2 x: 6 and 48.
  EXPECT_THAT(session->FindVariable("g.gain")->as<const float>(), ::testing::ElementsAre(0.5F - 6, 0.5F - 48));
}

TEST(OutsideOp, InAModelFile) {
  const std::string text = *SumOfPowers(Power()).ToText();
  EXPECT_THAT(text, HasSubstr("[snug.custom]"));
  Result<Network> network = Network::FromText(text);
  ASSERT_TRUE(network.ok()) << network.status().message();
  network->AddOp(Power()).AddOp(Gain());
  Result<Session> session = Session::Create(*network, {.training = false});
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->Step({{"x", {2.F, 4.F}}}).ok());
  EXPECT_EQ(*session->FetchScalar("sum"), 9);
}

TEST(OutsideOp, NobodyElseKnowsIt) {
  Network other("other");
  other.Input("x", {2}).Layer("p", "power", {"x"}).Objective("p");
  EXPECT_THAT(Session::Create(other).status().message(), HasSubstr("unknown op \"power\""));
}

TEST(OutsideOp, MistakesAreErrors) {
  const auto mistake = [](Op op) { return Session::Create(SumOfPowers(std::move(op))).status().message(); };
  Op broken = Power();
  broken.kernel = nullptr;
  EXPECT_THAT(mistake(broken), HasSubstr("op \"power\": expected a function `kernel`, found none"));
  broken = Power();
  broken.name = "relu";
  EXPECT_THAT(mistake(broken), HasSubstr("is defined already"));
  broken = Power();
  broken.gradient = nullptr;
  EXPECT_THAT(mistake(broken), HasSubstr("has no gradient"));
  broken = Power();
  broken.infer = [](const OpCall&, std::vector<TensorType>*) -> Status { throw std::runtime_error("no idea"); };
  EXPECT_THAT(mistake(broken), HasSubstr("no idea"));
  Network network("n");
  network.AddOp(Power()).Input("x", {2}).Layer("p", "power", {"x"}, {{"exponent", 0}}).Objective("p");
  EXPECT_THAT(Session::Create(network).status().message(), HasSubstr("option \"exponent\": expected at least 1"));
}

TEST(OutsideOp, WhatAKernelThrowsIsAnErrorOfTheStep) {
  Op thrower = Power();
  thrower.kernel = [](const OpCall&) -> Status { throw std::runtime_error("a broken kernel"); };
  Result<Session> session = Session::Create(SumOfPowers(thrower), {.training = false});
  ASSERT_TRUE(session.ok()) << session.status().message();
  const Status status = session->Step({{"x", {2.F, 4.F}}});
  EXPECT_THAT(status.message(), HasSubstr("\"p\" (power)"));
  EXPECT_THAT(status.message(), HasSubstr("a broken kernel"));

  thrower.kernel = [](const OpCall&) -> Status { throw std::bad_alloc(); };
  session = Session::Create(SumOfPowers(thrower), {.training = false});
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(session->Step({{"x", {2.F, 4.F}}}).code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace snug::testing
