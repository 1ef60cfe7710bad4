/* A kernel of one's own, checked inside one's own process: the integer linear of the contract in plain C.
 *
 *   cc -std=c99 -ffp-contract=off linear_s8.c $(pkg-config --cflags --libs zeroulp) -lm -o linear_s8 && ./linear_s8
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "zeroulp.h"

/* Round to nearest, ties to even; every NaN is 0x7FC0. */
static uint16_t bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return 0x7FC0;
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static int linear_s8(const zu_case* c, void* user) {
  const zu_tensor *codes = zu_case_input(c, "codes"), *weights = zu_case_input(c, "weights"), *bias = zu_case_input(c, "bias"), *y = zu_case_output(c, "y");
  const float* sa = (const float*)zu_case_input(c, "row_scales")->data;
  const float* sb = (const float*)zu_case_input(c, "channel_scales")->data;
  const int64_t rows = codes->shape[0], k = codes->shape[1], n = weights->shape[0];
  int64_t row, channel, i;
  (void)user;
  for (row = 0; row < rows; ++row)
    for (channel = 0; channel < n; ++channel) {
      const int16_t* q = (const int16_t*)codes->data + row * k;
      const int8_t* w = (const int8_t*)weights->data + channel * k;
      int64_t acc = 0, at = row * n + channel;
      float f, scaled, value;
      for (i = 0; i < k; ++i) acc += (int64_t)q[i] * w[i];
      if (y->type == ZU_I64) {
        ((int64_t*)y->data)[at] = acc;
        continue;
      }
      f = (float)acc; /* one rounding */
      scaled = sb[channel] * f;
      value = bias != NULL ? fmaf(sa[row], scaled, ((const float*)bias->data)[channel]) : sa[row] * scaled;
      if (y->type == ZU_BF16)
        ((uint16_t*)y->data)[at] = bf16(value);
      else {
        const uint32_t nan = 0x7FC00000;
        if (value != value) memcpy(&value, &nan, sizeof value);
        ((float*)y->data)[at] = value;
      }
    }
  return ZU_DONE;
}

int main(void) {
  zu_check_report report;
  const int code = zu_check_op("linear_s8", "hard,random", linear_s8, NULL, &report);
  printf("linear_s8: %lld cases, %lld elements, %lld wrong\n%s\n", (long long)report.cases, (long long)report.elements, (long long)report.wrong,
         code == ZU_CHECK_EQUAL ? "equal bits" : report.text);
  return code;
}
