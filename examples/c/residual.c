/* A kernel of one's own in a pipe, without any library: the residual addition of the contract in plain C.
 *
 *   cc -std=c99 residual.c -o residual && zeroulp cases emit residual --kind all | ./residual | zeroulp cases check
 */
#include "cases_stream.h"

static float widened(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float x;
  memcpy(&x, &wide, sizeof x);
  return x;
}

/* Round to nearest, ties to even; every NaN is 0x7FC0. */
static uint16_t bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return 0x7FC0;
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

int main(void) {
  zc_case c;
  zc_begin();
  while (zc_next(&c)) {
    const uint16_t* x = (const uint16_t*)zc_input(&c, "x")->data;
    const uint16_t* y = (const uint16_t*)zc_input(&c, "y")->data;
    const int64_t count = c.output[0].shape[0];
    uint16_t* sum = (uint16_t*)malloc((size_t)count * sizeof *sum);
    const void* outputs[1];
    int64_t i;
    for (i = 0; i < count; ++i) sum[i] = bf16(widened(x[i]) + widened(y[i]));
    outputs[0] = sum;
    zc_answer(&c, outputs);
    free(sum);
  }
  return 0;
}
