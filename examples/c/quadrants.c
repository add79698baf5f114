/* Trains a small network, from C, to tell in which quadrant of the plane a point lies; saves it, loads it into another
 * session, and shows that both say the same. */
#include <snug/c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 64, UNSEEN = 256, STEPS = 400 };

static const char* const kModel =
    "name: 'quadrants'\n"
    "input { name: 'point' shape { dim: 2 } }\n"
    "input { name: 'quadrant' dtype: INT32 max_value: 4 }\n"
    "layer { name: 'hidden' input: 'point' dense { units: 32 } }\n"
    "layer { name: 'bent' input: 'hidden' tanh {} }\n"
    "layer { name: 'score' input: 'bent' dense { units: 4 } }\n"
    "layer { name: 'loss' input: 'score' input: 'quadrant' softmax_cross_entropy {} }\n"
    "objective: 'loss'\n"
    "output: 'score'\n"
    "optimizer { learning_rate: 0.02 adam {} }\n";

/* Ends the program with what the library says. */
static void check(snug_error* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", snug_error_message(error));
  snug_error_free(error);
  exit(1);
}

static double uniform(void) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 40) / (double)(1 << 23) - 1;
}

static void draw(int count, float* points, int32_t* quadrants) {
  for (int i = 0; i < count; ++i) {
    const double x = uniform(), y = uniform();
    points[2 * i] = (float)x;
    points[2 * i + 1] = (float)y;
    quadrants[i] = (x < 0 ? 1 : 0) + (y < 0 ? 2 : 0);
  }
}

static int count_right(snug_session* session, const float* points, const int32_t* quadrants) {
  float scores[UNSEEN * 4];
  int right = 0;
  check(snug_feed(session, SNUG_EVALUATION, "point", points, 2 * UNSEEN, SNUG_FLOAT32));
  check(snug_feed(session, SNUG_EVALUATION, "quadrant", quadrants, UNSEEN, SNUG_INT32));
  check(snug_step(session, SNUG_EVALUATION));
  check(snug_fetch(session, SNUG_EVALUATION, "score", scores, UNSEEN * 4, SNUG_FLOAT32));
  for (int i = 0; i < UNSEEN; ++i) {
    int best = 0;
    for (int c = 1; c < 4; ++c) best = scores[4 * i + c] > scores[4 * i + best] ? c : best;
    right += best == quadrants[i];
  }
  return right;
}

int main(int argc, char** argv) {
  const char* directory = argc > 1 ? argv[1] : "checkpoints";
  snug_network* network = NULL;
  snug_options* options = NULL;
  snug_session *session = NULL, *loaded = NULL;
  snug_memory memory;

  check(snug_network_from_text(kModel, "quadrants", &network));
  check(snug_options_new(&options));
  check(snug_options_set_integer(options, "batch", BATCH));
  check(snug_options_set_integer(options, "evaluation_batch", UNSEEN));
  check(snug_plan(network, options, &memory));
  printf("planned %lld bytes, at least %lld\n", (long long)(memory.state_bytes + memory.step_bytes),
         (long long)memory.lower_bound);

  check(snug_session_create(network, options, &session));
  double loss = 0;
  for (int step = 0; step < STEPS; ++step) {
    float points[2 * BATCH];
    int32_t quadrants[BATCH];
    draw(BATCH, points, quadrants);
    check(snug_feed(session, SNUG_TRAINING, "point", points, 2 * BATCH, SNUG_FLOAT32));
    check(snug_feed(session, SNUG_TRAINING, "quadrant", quadrants, BATCH, SNUG_INT32));
    check(snug_step(session, SNUG_TRAINING));
    check(snug_fetch_scalar(session, SNUG_TRAINING, "loss", &loss));
  }
  float points[2 * UNSEEN];
  int32_t quadrants[UNSEEN];
  draw(UNSEEN, points, quadrants);
  const int right = count_right(session, points, quadrants);
  printf("%lld steps: loss %.3f, %d of %d unseen points right\n", (long long)snug_steps(session), loss, right, UNSEEN);

  char* path = NULL;
  check(snug_save(session, directory, 3, &path));
  check(snug_session_create(network, options, &loaded));
  check(snug_restore(loaded, path, SNUG_RESUME));
  if (count_right(loaded, points, quadrants) == right) printf("the same from %s\n", path);

  /* Mistakes come back as text that says where they are. */
  snug_network* wrong = NULL;
  snug_error* error = snug_network_from_text(
      "name: 'wrong'\ninput { name: 'x' shape { dim: 2 } }\nlayer { name: 'y' input: 'x' dance {} }\n", "text", &wrong);
  printf("a mistake: %s\n", snug_error_message(error));
  snug_error_free(error);

  snug_text_free(path);
  snug_session_free(loaded);
  snug_session_free(session);
  snug_options_free(options);
  snug_network_free(network);
  return 0;
}
