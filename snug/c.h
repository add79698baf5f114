/* Snug from C, and from every language that can call C.
 *
 *   snug_network* network = NULL;
 *   snug_session* session = NULL;
 *   snug_error* error = snug_network_from_file("models/mlp.pbtxt", &network);
 *   if (error == NULL) error = snug_session_create(network, NULL, &session);
 *   if (error == NULL) error = snug_feed(session, SNUG_TRAINING, "image", pixels, 784, SNUG_FLOAT32);
 *   ...
 *   if (error != NULL) puts(snug_error_message(error));
 *
 * A function that can fail returns an error, which the caller frees, or NULL; what it would have given is untouched
 * then. No exception leaves the library. Handles are freed by the function of their kind, which takes NULL too.
 * Sessions share nothing: each may be used from a different thread, but only by one thread at a time; snug_stop alone
 * may be called by any.
 *
 * Structs and the numbers of enums keep their meaning; new ones come at the end, where `reserved` has room. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SNUG_C_API __attribute__((visibility("default")))

/* ---- errors ---- */
typedef struct snug_error snug_error;
/* The codes of gRPC and Abseil: 3 is an invalid argument, 5 not found, 8 memory or disk at its end, 9 a call at the
 * wrong time, 13 a bug in the library, 15 data that are broken. */
SNUG_C_API int snug_error_code(const snug_error* error); /* 0 for NULL */
/* `mlp.pbtxt:4:30: layer "fc1" (dense): ...`, a line for each mistake. It lives as long as the error. */
SNUG_C_API const char* snug_error_message(const snug_error* error);
SNUG_C_API void snug_error_free(snug_error* error);

/* The version of the library, as "0.1.0". */
SNUG_C_API const char* snug_version(void);

/* A text that a function gave, such as the path of a checkpoint. */
SNUG_C_API void snug_text_free(char* text);

/* Names that a function gave, in their order. */
typedef struct snug_names snug_names;
SNUG_C_API size_t snug_names_count(const snug_names* names);
SNUG_C_API const char* snug_names_at(const snug_names* names, size_t index); /* NULL beyond the last */
SNUG_C_API void snug_names_free(snug_names* names);

/* ---- networks ---- */
typedef struct snug_network snug_network;
SNUG_C_API snug_error* snug_network_from_file(const char* path, snug_network** network);
/* The text of a model file; `name` stands for the file in messages. */
SNUG_C_API snug_error* snug_network_from_text(const char* text, const char* name, snug_network** network);
SNUG_C_API snug_error* snug_network_to_text(const snug_network* network, char** text);
/* The same network with so many outputs of the layers that score classes, as data have so many; `network` stays. */
SNUG_C_API snug_error* snug_network_with_classes(const snug_network* network, int64_t classes, snug_network** result);
SNUG_C_API void snug_network_free(snug_network* network);

/* ---- options of a session ---- */
/* They are the fields of SessionOptions in snug/session.h, by name: device, batch, training, evaluation_batch,
 * precision, stochastic_rounding, threads, streams, engine, memory, memory_limit, seed, keep_inputs (integers and
 * texts; an integer that is not 0 is true), watchdog (a number of seconds; its report goes to standard error). `fetch`
 * and `bound` take a name each time they are set. Any other name is one of `training { memory { } }`: gc_fraction,
 * allocator. */
typedef struct snug_options snug_options;
SNUG_C_API snug_error* snug_options_new(snug_options** options);
SNUG_C_API snug_error* snug_options_set_integer(snug_options* options, const char* name, int64_t value);
SNUG_C_API snug_error* snug_options_set_number(snug_options* options, const char* name, double value);
SNUG_C_API snug_error* snug_options_set_text(snug_options* options, const char* name, const char* value);
SNUG_C_API void snug_options_free(snug_options* options);

/* ---- memory ---- */
typedef struct snug_memory {
  int64_t state_bytes; /* of the Variables */
  int64_t step_bytes;  /* of everything else */
  int64_t lower_bound; /* no plan has a smaller sum of the two */
  int32_t proven;      /* not 0: the plan reaches the bound, or a search has shown that no plan is better */
  char strategy[60];
  int64_t reserved[4];
} snug_memory;
/* What a session would need, to the byte, without taking it. `options` may be NULL here and below. */
SNUG_C_API snug_error* snug_plan(const snug_network* network, const snug_options* options, snug_memory* memory);

/* The same plan as JSON: the fields of `snug plan --json`, with every Variable and value, where it lies and when. It is
 * the plan of the program for training, or of the one that was asked for instead. */
SNUG_C_API snug_error* snug_plan_report(const snug_network* network, const snug_options* options, char** json);
/* What the option `memory` may name: strategies that are quick, and those that may search for minutes. */
SNUG_C_API snug_error* snug_strategies(snug_names** quick, snug_names** slow);

/* ---- sessions ---- */
typedef struct snug_session snug_session;
/* The session keeps nothing of `network` and `options`, which may be freed after this. */
SNUG_C_API snug_error* snug_session_create(const snug_network* network, const snug_options* options,
                                           snug_session** session);
SNUG_C_API void snug_session_free(snug_session* session);

/* The compiled forms of the network within a session, on the same Variables and memory. */
typedef enum snug_program {
  SNUG_TRAINING = 0,  /* a whole step; forward only where the option `training` is 0 */
  SNUG_EVALUATION = 1 /* forward only, where the option `evaluation_batch` was given */
} snug_program;

typedef enum snug_dtype {
  SNUG_FLOAT32 = 0,
  SNUG_BFLOAT16 = 1,
  SNUG_FLOAT64 = 2,
  SNUG_INT32 = 3,
  SNUG_INT64 = 4,
  SNUG_UINT8 = 5
} snug_dtype;

/* Copies `count` numbers, one for each element of the batch, and converts them to the input's own type. */
SNUG_C_API snug_error* snug_feed(snug_session* session, snug_program program, const char* name, const void* numbers,
                                 int64_t count, snug_dtype dtype);
/* Does so row by row, to pick samples out of many: the n-th sample of the batch is the row rows[n] of `numbers`, which
 * has `row_count` rows, each as long as a sample. `rows` has a number for each sample of the batch. */
SNUG_C_API snug_error* snug_feed_rows(snug_session* session, snug_program program, const char* name,
                                      const void* numbers, int64_t row_count, snug_dtype dtype, const int64_t* rows);
/* Runs one step. An error before any Variable has changed leaves them as they were. */
SNUG_C_API snug_error* snug_step(snug_session* session, snug_program program);
/* While `stop` is not 0, the step under way, and those that begin, end as soon as may be: with the code 1, and nothing
 * changed, or complete where Variables are being changed already. What a stopped step was fed is to be fed anew. Any
 * thread may call this while the session lives, and so may a signal handler. Steps on a GPU are not stopped midway. */
SNUG_C_API void snug_stop(snug_session* session, int stop);
/* Copies an output's `count` elements, converted to `dtype`, which is not SNUG_BFLOAT16. */
SNUG_C_API snug_error* snug_fetch(snug_session* session, snug_program program, const char* name, void* numbers,
                                  int64_t count, snug_dtype dtype);
SNUG_C_API snug_error* snug_fetch_scalar(snug_session* session, snug_program program, const char* name, double* value);

/* Bytes of the library in place, row-major, valid as long as the session. */
typedef struct snug_tensor {
  void* data; /* NULL: not known yet, or only the type was asked for */
  const int64_t* shape;
  int32_t rank;
  int32_t dtype; /* a snug_dtype */
  int64_t reserved[2];
} snug_tensor;
/* To write before a step, which counts as feeding. A step may write over its inputs, unless `keep_inputs`. */
SNUG_C_API snug_error* snug_input(snug_session* session, snug_program program, const char* name, snug_tensor* tensor);
/* To read after a step. */
SNUG_C_API snug_error* snug_output(snug_session* session, snug_program program, const char* name, snug_tensor* tensor);
/* Lets a value that the option `bound` names use the caller's own memory, which begins at a multiple of 64 bytes and
 * outlives the steps. Unless `writable` is 0, steps may write there. */
SNUG_C_API snug_error* snug_bind(snug_session* session, snug_program program, const char* name, void* numbers,
                                 int64_t count, snug_dtype dtype, int writable);

/* Shape and element type of an input or output, without its bytes. */
SNUG_C_API snug_error* snug_input_type(snug_session* session, snug_program program, const char* name,
                                       snug_tensor* tensor);
SNUG_C_API snug_error* snug_output_type(snug_session* session, snug_program program, const char* name,
                                        snug_tensor* tensor);

SNUG_C_API snug_error* snug_inputs(snug_session* session, snug_program program, snug_names** names);
SNUG_C_API snug_error* snug_outputs(snug_session* session, snug_program program, snug_names** names);
SNUG_C_API snug_error* snug_batch(snug_session* session, snug_program program, int64_t* batch);
SNUG_C_API snug_error* snug_session_memory(snug_session* session, snug_program program, snug_memory* memory);

/* Variables: parameters, statistics, and what the optimizer keeps ("fc1.weight"). */
SNUG_C_API snug_error* snug_variables(snug_session* session, snug_names** names);
SNUG_C_API snug_error* snug_parameters(snug_session* session, snug_names** names); /* those that are trained */
SNUG_C_API snug_error* snug_variable(snug_session* session, const char* name, snug_tensor* tensor);
SNUG_C_API snug_error* snug_set_variable(snug_session* session, const char* name, const void* numbers, int64_t count,
                                         snug_dtype dtype);

SNUG_C_API int64_t snug_steps(const snug_session* session); /* how many were trained; a checkpoint has it */
SNUG_C_API snug_error* snug_set_learning_rate(snug_session* session, double rate);
SNUG_C_API snug_error* snug_learning_rate(snug_session* session, double* rate);

/* Writes a checkpoint into the directory: complete and on the disk, or nothing. The newest `keep` stay. `path` may be
 * NULL. */
SNUG_C_API snug_error* snug_save(snug_session* session, const char* directory, int keep, char** path);
typedef enum snug_load {
  SNUG_RESUME = 0,   /* everything, bit for bit; refused where the session differs */
  SNUG_CONTINUE = 1, /* everything; what only changes the rounding may differ */
  SNUG_WEIGHTS = 2   /* parameters and statistics; also of files of other programs */
} snug_load;
/* A file, or the newest complete checkpoint of a directory. All or nothing. */
SNUG_C_API snug_error* snug_restore(snug_session* session, const char* path, snug_load what);

/* ---- arrays ---- */
/* Numbers in memory that stay as long as anybody needs them: bytes of the array's own, which begin at a multiple of 64,
 * or those of a session, which then outlive snug_session_free. An array may go from thread to thread. */
typedef struct snug_array snug_array;
/* Of its own, not set to anything. */
SNUG_C_API snug_error* snug_array_new(snug_dtype dtype, const int64_t* shape, int32_t rank, snug_array** array);
/* Of the session: what snug_input, snug_output or snug_variable gave. */
SNUG_C_API snug_error* snug_array_of(snug_session* session, const snug_tensor* tensor, snug_array** array);
SNUG_C_API snug_error* snug_array_tensor(const snug_array* array, snug_tensor* tensor); /* valid as long as the array */
SNUG_C_API void snug_array_free(snug_array* array);
/* The same bytes as a DLManagedTensor of dlpack.h or, unless `versioned` is 0, a DLManagedTensorVersioned of
 * version 1.0. They stay until its `deleter` is called, which any thread may do, whatever has become of the array. */
SNUG_C_API snug_error* snug_array_dlpack(const snug_array* array, int versioned, void** managed);
/* The destructor of Python's capsules. One called "dltensor" or "dltensor_versioned" has one of these: its deleter is
 * called, unless somebody has taken it over and renamed the capsule. One called "snug_array", "snug_network" or
 * "snug_session" has such a handle, which is freed; unless the capsule's context is the number of another process,
 * whose fork this is: freeing would wait for threads that stayed there. */
SNUG_C_API void snug_capsule_free(void* capsule);

#ifdef __cplusplus
}
#endif
