#include "snug/internal/c_handles.h"

namespace snug {
inline namespace v0 {
namespace c_api {

snug_error& OutOfMemory() {
  static snug_error error{{StatusCode::kResourceExhausted, "out of memory"}};
  return error;
}

snug_error* ErrorOf(Status status) noexcept {
  if (status.ok()) return nullptr;
  auto* error = new (std::nothrow) snug_error{std::move(status)};
  return error == nullptr ? &OutOfMemory() : error;
}

}  // namespace c_api
}  // namespace v0
}  // namespace snug

using namespace snug::c_api;

namespace {

using snug::DType;
using snug::Result;
using snug::Status;

// It is made when the library is loaded, while there is memory.
[[maybe_unused]] const snug_error& made_in_time = OutOfMemory();

template <class T>
Status FetchAs(snug::Program& program, const char* name, void* numbers, int64_t count) {
  const Result<std::vector<T>> fetched = program.Fetch<T>(name);
  if (!fetched.ok()) return fetched.status();
  if (static_cast<int64_t>(fetched->size()) != count) {
    return Invalid(std::string("output \"") + name + "\": expected room for its " + std::to_string(fetched->size()) +
                   " elements, found " + std::to_string(count));
  }
  std::memcpy(numbers, fetched->data(), fetched->size() * sizeof(T));
  return {};
}

Status GiveMemory(const Result<snug::MemoryFigures>& found, snug_memory* memory) {
  if (!found.ok()) return found.status();
  *memory = {.state_bytes = found->state_bytes,
             .step_bytes = found->step_bytes,
             .lower_bound = found->lower_bound,
             .proven = found->proven ? 1 : 0,
             .strategy = {},
             .reserved = {}};
  std::strncpy(memory->strategy, found->strategy.c_str(), sizeof memory->strategy - 1);
  return {};
}

// An option that is an integer or true, as a place to put it.
struct IntegerField {
  const char* name;
  void (*set)(snug::SessionOptions& options, int64_t value);
};
constexpr IntegerField kIntegers[] = {
    {"batch", [](snug::SessionOptions& o, int64_t v) { o.batch = v; }},
    {"training", [](snug::SessionOptions& o, int64_t v) { o.training = v != 0; }},
    {"evaluation_batch", [](snug::SessionOptions& o, int64_t v) { o.evaluation_batch = v; }},
    {"stochastic_rounding", [](snug::SessionOptions& o, int64_t v) { o.stochastic_rounding = v != 0; }},
    {"threads", [](snug::SessionOptions& o, int64_t v) { o.threads = static_cast<int>(v); }},
    {"streams", [](snug::SessionOptions& o, int64_t v) { o.streams = static_cast<int>(v); }},
    {"memory_limit", [](snug::SessionOptions& o, int64_t v) { o.memory_limit = v; }},
    {"seed", [](snug::SessionOptions& o, int64_t v) { o.seed = static_cast<uint64_t>(v); }},
    {"keep_inputs", [](snug::SessionOptions& o, int64_t v) { o.keep_inputs = v != 0; }},
};

struct TextField {
  const char* name;
  void (*set)(snug::SessionOptions& options, const char* value);
};
constexpr TextField kTexts[] = {
    {"device", [](snug::SessionOptions& o, const char* v) { o.device = v; }},
    {"engine", [](snug::SessionOptions& o, const char* v) { o.engine = v; }},
    {"memory", [](snug::SessionOptions& o, const char* v) { o.memory = v; }},
    {"fetch", [](snug::SessionOptions& o, const char* v) { o.fetch.emplace_back(v); }},
    {"bound", [](snug::SessionOptions& o, const char* v) { o.bound.emplace_back(v); }},
};

struct NumberField {
  const char* name;
  void (*set)(snug::SessionOptions& options, double value);
};
constexpr NumberField kNumbers[] = {
    {"watchdog", [](snug::SessionOptions& o, double v) { o.watchdog = v; }},
};

template <class Field, size_t kSize>
const Field* FieldCalled(const Field (&fields)[kSize], const std::string& name) {
  for (const Field& field : fields) {
    if (name == field.name) return &field;
  }
  return nullptr;
}

bool IsPrecision(const std::string& name) { return name == "precision"; }

Status WrongKind(const std::string& name, const char* expected) {
  return Invalid("option \"" + name + "\": expected " + expected);
}

// What no field is called is an option of memory, whose names and values the session checks.
template <class Value>
void SetMemoryOption(snug::SessionOptions& options, const std::string& name, Value value) {
  for (snug::Option& option : options.memory_options) {
    if (option.name == name) {
      option.value = snug::OptionValue(value);
      return;
    }
  }
  options.memory_options.push_back({name, snug::OptionValue(value)});
}

}  // namespace

int snug_error_code(const snug_error* error) { return error == nullptr ? 0 : static_cast<int>(error->status.code()); }
const char* snug_error_message(const snug_error* error) {
  return error == nullptr ? "" : error->status.message().c_str();
}
void snug_error_free(snug_error* error) {
  if (error != &OutOfMemory()) delete error;
}

const char* snug_version(void) { return snug::LibraryVersion(); }
void snug_text_free(char* text) { std::free(text); }

size_t snug_names_count(const snug_names* names) { return names == nullptr ? 0 : names->names.size(); }
const char* snug_names_at(const snug_names* names, size_t index) {
  return index < snug_names_count(names) ? names->names[index].c_str() : nullptr;
}
void snug_names_free(snug_names* names) { delete names; }

snug_error* snug_network_from_file(const char* path, snug_network** network) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"path", path}, {"network", network}}); !given.ok()) return given;
    Result<snug::Network> read = snug::Network::FromFile(path);
    if (!read.ok()) return read.status();
    *network = new snug_network{std::move(*read)};
    return {};
  });
}

snug_error* snug_network_from_text(const char* text, const char* name, snug_network** network) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"text", text}, {"name", name}, {"network", network}}); !given.ok()) return given;
    Result<snug::Network> read = snug::Network::FromText(text, name);
    if (!read.ok()) return read.status();
    *network = new snug_network{std::move(*read)};
    return {};
  });
}

snug_error* snug_network_to_text(const snug_network* network, char** text) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"network", network}, {"text", text}}); !given.ok()) return given;
    const Result<std::string> written = network->network.ToText();
    if (!written.ok()) return written.status();
    *text = CopyOf(*written);
    return {};
  });
}

snug_error* snug_network_with_classes(const snug_network* network, int64_t classes, snug_network** result) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"network", network}, {"result", result}}); !given.ok()) return given;
    Result<snug::Network> made = network->network.WithClasses(classes);
    if (!made.ok()) return made.status();
    *result = new snug_network{std::move(*made)};
    return {};
  });
}

void snug_network_free(snug_network* network) { delete network; }

snug_error* snug_options_new(snug_options** options) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"options", options}}); !given.ok()) return given;
    *options = new snug_options;
    return {};
  });
}

snug_error* snug_options_set_integer(snug_options* options, const char* name, int64_t value) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"options", options}, {"name", name}}); !given.ok()) return given;
    if (IsPrecision(name) || FieldCalled(kTexts, name) != nullptr) return WrongKind(name, "a text, found an integer");
    const std::string called = name;
    if ((called == "threads" || called == "streams") && (value < 0 || value > INT32_MAX)) {
      return WrongKind(called, ("a number of them, found " + std::to_string(value)).c_str());
    }
    if (const IntegerField* field = FieldCalled(kIntegers, called); field != nullptr) {
      field->set(options->options, value);
    } else if (const NumberField* number = FieldCalled(kNumbers, called); number != nullptr) {
      number->set(options->options, static_cast<double>(value));
    } else {
      SetMemoryOption(options->options, called, value);
    }
    return {};
  });
}

snug_error* snug_options_set_number(snug_options* options, const char* name, double value) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"options", options}, {"name", name}}); !given.ok()) return given;
    if (FieldCalled(kIntegers, name) != nullptr) return WrongKind(name, "an integer, found a number");
    if (IsPrecision(name) || FieldCalled(kTexts, name) != nullptr) return WrongKind(name, "a text, found a number");
    if (const NumberField* field = FieldCalled(kNumbers, name); field != nullptr) {
      field->set(options->options, value);
    } else {
      SetMemoryOption(options->options, name, value);
    }
    return {};
  });
}

snug_error* snug_options_set_text(snug_options* options, const char* name, const char* value) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"options", options}, {"name", name}, {"value", value}}); !given.ok()) return given;
    if (FieldCalled(kIntegers, name) != nullptr) return WrongKind(name, "an integer, found a text");
    if (FieldCalled(kNumbers, name) != nullptr) return WrongKind(name, "a number, found a text");
    if (IsPrecision(name)) {
      const std::string precision = value;
      if (precision == "float32") {
        options->options.precision = DType::kFloat32;
      } else if (precision == "bfloat16") {
        options->options.precision = DType::kBFloat16;
      } else if (precision == "float64") {
        options->options.precision = DType::kFloat64;
      } else {
        return WrongKind(name, ("float32, bfloat16 or float64, found \"" + precision + "\"").c_str());
      }
    } else if (const TextField* field = FieldCalled(kTexts, name); field != nullptr) {
      field->set(options->options, value);
    } else {
      SetMemoryOption(options->options, name, value);
    }
    return {};
  });
}

void snug_options_free(snug_options* options) { delete options; }

snug_error* snug_plan(const snug_network* network, const snug_options* options, snug_memory* memory) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"network", network}, {"memory", memory}}); !given.ok()) return given;
    return GiveMemory(snug::Session::Plan(network->network, OptionsOf(options)), memory);
  });
}

snug_error* snug_session_create(const snug_network* network, const snug_options* options, snug_session** session) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"network", network}, {"session", session}}); !given.ok()) return given;
    Result<snug::Session> created = snug::Session::Create(network->network, OptionsOf(options));
    if (!created.ok()) return created.status();
    *session = new snug_session{std::make_shared<snug::Session>(std::move(*created))};
    return {};
  });
}

void snug_session_free(snug_session* session) { delete session; }

snug_error* snug_feed(snug_session* session, snug_program program, const char* name, const void* numbers, int64_t count,
                      snug_dtype dtype) {
  return WithProgram(session, program, {{"name", name}, {"numbers", numbers}}, [&](snug::Program& p) -> Status {
    const Result<DType> type = DTypeFrom(dtype);
    return type.ok() ? p.Feed(name, snug::Numbers(numbers, count, *type)) : type.status();
  });
}

snug_error* snug_step(snug_session* session, snug_program program) {
  return WithProgram(session, program, {}, [](snug::Program& p) { return p.Run(); });
}

snug_error* snug_fetch(snug_session* session, snug_program program, const char* name, void* numbers, int64_t count,
                       snug_dtype dtype) {
  return WithProgram(session, program, {{"name", name}, {"numbers", numbers}}, [&](snug::Program& p) -> Status {
    const Result<DType> type = DTypeFrom(dtype);
    if (!type.ok()) return type.status();
    switch (*type) {
      case DType::kFloat32:
        return FetchAs<float>(p, name, numbers, count);
      case DType::kFloat64:
        return FetchAs<double>(p, name, numbers, count);
      case DType::kInt32:
        return FetchAs<int32_t>(p, name, numbers, count);
      case DType::kInt64:
        return FetchAs<int64_t>(p, name, numbers, count);
      case DType::kUint8:
        return FetchAs<uint8_t>(p, name, numbers, count);
      case DType::kBFloat16:
        break;
    }
    return Invalid("argument \"dtype\": expected a type that C has, found SNUG_BFLOAT16: snug_output gives the bytes");
  });
}

snug_error* snug_fetch_scalar(snug_session* session, snug_program program, const char* name, double* value) {
  return WithProgram(session, program, {{"name", name}, {"value", value}}, [&](snug::Program& p) -> Status {
    const Result<double> fetched = p.FetchScalar(name);
    if (!fetched.ok()) return fetched.status();
    *value = *fetched;
    return {};
  });
}

snug_error* snug_input(snug_session* session, snug_program program, const char* name, snug_tensor* tensor) {
  return WithProgram(session, program, {{"name", name}, {"tensor", tensor}},
                     [&](snug::Program& p) { return GiveTensor(p.Input(name), tensor); });
}

snug_error* snug_output(snug_session* session, snug_program program, const char* name, snug_tensor* tensor) {
  return WithProgram(session, program, {{"name", name}, {"tensor", tensor}},
                     [&](snug::Program& p) { return GiveTensor(p.Output(name), tensor); });
}

snug_error* snug_bind(snug_session* session, snug_program program, const char* name, void* numbers, int64_t count,
                      snug_dtype dtype, int writable) {
  return WithProgram(session, program, {{"name", name}, {"numbers", numbers}}, [&](snug::Program& p) -> Status {
    const Result<DType> type = DTypeFrom(dtype);
    if (!type.ok()) return type.status();
    if (writable != 0) return p.Bind(name, snug::Buffer(numbers, count, *type));
    return p.Bind(name, snug::Buffer(static_cast<const void*>(numbers), count, *type));
  });
}

snug_error* snug_inputs(snug_session* session, snug_program program, snug_names** names) {
  return WithProgram(session, program, {{"names", names}},
                     [&](snug::Program& p) { return GiveNames(p.inputs(), names); });
}

snug_error* snug_outputs(snug_session* session, snug_program program, snug_names** names) {
  return WithProgram(session, program, {{"names", names}},
                     [&](snug::Program& p) { return GiveNames(p.outputs(), names); });
}

snug_error* snug_batch(snug_session* session, snug_program program, int64_t* batch) {
  return WithProgram(session, program, {{"batch", batch}}, [&](snug::Program& p) -> Status {
    *batch = p.batch();
    return {};
  });
}

snug_error* snug_session_memory(snug_session* session, snug_program program, snug_memory* memory) {
  return WithProgram(session, program, {{"memory", memory}},
                     [&](snug::Program& p) { return GiveMemory(p.memory(), memory); });
}

snug_error* snug_variables(snug_session* session, snug_names** names) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"session", session}, {"names", names}}); !given.ok()) return given;
    const Result<std::vector<snug::Variable>> variables = session->session->variables();
    if (!variables.ok()) return variables.status();
    std::vector<std::string> found;
    for (const snug::Variable& variable : *variables) found.push_back(variable.name);
    return GiveNames(std::move(found), names);
  });
}

snug_error* snug_variable(snug_session* session, const char* name, snug_tensor* tensor) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"session", session}, {"name", name}, {"tensor", tensor}}); !given.ok()) return given;
    return GiveTensor(session->session->FindVariable(name), tensor);
  });
}

snug_error* snug_set_variable(snug_session* session, const char* name, const void* numbers, int64_t count,
                              snug_dtype dtype) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"session", session}, {"name", name}, {"numbers", numbers}}); !given.ok()) return given;
    const Result<DType> type = DTypeFrom(dtype);
    return type.ok() ? session->session->SetVariable(name, snug::Numbers(numbers, count, *type)) : type.status();
  });
}

int64_t snug_steps(const snug_session* session) { return session == nullptr ? 0 : session->session->steps(); }

snug_error* snug_set_learning_rate(snug_session* session, double rate) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"session", session}}); !given.ok()) return given;
    return session->session->SetLearningRate(rate);
  });
}

snug_error* snug_learning_rate(snug_session* session, double* rate) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"session", session}, {"rate", rate}}); !given.ok()) return given;
    const Result<double> found = session->session->learning_rate();
    if (!found.ok()) return found.status();
    *rate = *found;
    return {};
  });
}

snug_error* snug_save(snug_session* session, const char* directory, int keep, char** path) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"session", session}, {"directory", directory}}); !given.ok()) return given;
    const Result<std::string> saved = session->session->Save(directory, keep);
    if (!saved.ok()) return saved.status();
    if (path != nullptr) *path = CopyOf(*saved);
    return {};
  });
}

snug_error* snug_restore(snug_session* session, const char* path, snug_load what) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"session", session}, {"path", path}}); !given.ok()) return given;
    const int number = what;
    if (number < SNUG_RESUME || number > SNUG_WEIGHTS) {
      return Invalid("argument \"what\": expected a snug_load, 0 to 2, found " + std::to_string(number));
    }
    constexpr snug::Load kLoads[] = {snug::Load::kResume, snug::Load::kContinue, snug::Load::kWeights};
    return session->session->Restore(path, kLoads[number]);
  });
}
