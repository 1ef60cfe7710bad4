/* zeroulp for other languages: the lossless codec (frames of docs/spec/codec.md, coded on the CPU), and the check of a kernel against the
 * contract (docs/contract.md). C99; link libzeroulp.
 *
 * Buffers belong to the caller, nothing is kept between calls, and any number of threads may call at once. Numbers do not change their meaning. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The codec. Every function returns 0 or one of the error numbers below; zu_codec_error() says it in words. */

enum { ZU_BF16 = 1, ZU_F16 = 2, ZU_F32 = 3, ZU_F8_E4M3 = 4, ZU_F8_E5M2 = 5, ZU_BYTES = 6 };
enum { ZU_LEVEL_FAST = 0, ZU_LEVEL_BALANCED = 1, ZU_LEVEL_REST = 2 };
/* 10 to 39: the frame is refused, numbers as in src/codec/format.h. */
enum { ZU_CODEC_OK = 0, ZU_CODEC_OPTIONS = 1, ZU_CODEC_ROOM = 2, ZU_CODEC_RAGGED = 3 };

typedef struct {
  int type;                /* ZU_BF16 ... */
  int level;               /* ZU_LEVEL_... */
  uint32_t block_bytes;    /* 0: 16384 */
  uint32_t channels;       /* bytes of `table`; 0: none */
  const uint8_t* table;    /* exponent table, see the format page */
} zu_codec_options;

/* The most bytes that a frame of `raw_bytes` bytes can take. */
int zu_codec_bound(const zu_codec_options* options, uint64_t raw_bytes, uint64_t* bound);
/* `to` has zu_codec_bound() bytes; *used tells how many the frame has. */
int zu_codec_encode(const zu_codec_options* options, const void* raw, uint64_t raw_bytes, void* to, uint64_t capacity, uint64_t* used);
/* What a frame of `bytes` bytes holds; its header and directory are checked. */
int zu_codec_inspect(const void* frame, uint64_t bytes, int* type, uint64_t* raw_bytes, uint32_t* blocks);
/* Decodes a frame into `raw`, of exactly raw_bytes bytes; after an error its content is undefined. */
int zu_codec_decode(const void* frame, uint64_t bytes, void* raw, uint64_t raw_bytes);
/* A sentence; never null. */
const char* zu_codec_error(int number);

/* A kernel of your own against the contract, inside your process. zu_check_op() calls it with the inputs of one case after another, the same as
 * `zeroulp cases emit` writes (docs/spec/cases.md), and compares what it wrote with what the op's reference gives, bit for bit. Memory in front of
 * and behind every output is compared too. */

enum { ZU_I8 = 7, ZU_U8 = 8, ZU_I16 = 9, ZU_I32 = 10, ZU_I64 = 11 }; /* types beside ZU_BF16 and ZU_F32; a bf16 is its 16 bits */

typedef struct {
  const char* name;
  int type; /* ZU_BF16 ... */
  int rank; /* 1 to 4 */
  int64_t shape[4];
  void* data; /* row-major, dense; an input's must not be written */
} zu_tensor;

enum { ZU_INTEGER = 1, ZU_REAL = 2, ZU_TEXT = 3 };
typedef struct {
  const char* name;
  int type;         /* says which of the three counts */
  int64_t integer;
  double real;
  const char* text;
} zu_attribute;

typedef struct {
  const char* op;      /* "linear_s8" */
  const char* kind;    /* "exhaustive", "hard", "random" */
  const char* name;    /* for people */
  const char* catches; /* the faults that it is there to catch */
  int64_t index;
  int inputs, outputs, attributes;
  const zu_tensor* input;
  const zu_tensor* output; /* the kernel writes every element of output[i].data */
  const zu_attribute* attribute;
} zu_case;

/* The tensor or attribute of that name; null, or `absent`, if there is none. */
const zu_tensor* zu_case_input(const zu_case* c, const char* name);
const zu_tensor* zu_case_output(const zu_case* c, const char* name);
int64_t zu_case_integer(const zu_case* c, const char* name, int64_t absent);
double zu_case_real(const zu_case* c, const char* name, double absent);
const char* zu_case_text(const zu_case* c, const char* name, const char* absent);

enum { ZU_DONE = 0, ZU_DECLINED = 1 };
/* Computes the case. ZU_DECLINED: the kernel does not do this case (another width, no bias, ...). Any other number but 0 ends the check. */
typedef int (*zu_kernel)(const zu_case* c, void* user);

typedef struct {
  int64_t cases, declined, elements, wrong, wrong_cases;
  int64_t first_case;       /* index of the first wrong case; -1: none. zeroulp cases emit OP --kind all --first INDEX --count 1 has it alone */
  char first_output[32];    /* name of its first wrong output */
  int64_t first_element;    /* in row-major order; below 0 or past the end: written outside the output */
  char text[2048];          /* a few lines: the element, both values in hexadecimal, the rule that was broken; or why nothing was checked */
} zu_check_report;

enum { ZU_CHECK_EQUAL = 0, ZU_CHECK_DIFFERS = 1, ZU_CHECK_USAGE = 2, ZU_CHECK_NOTHING = 4, ZU_CHECK_KERNEL = 6 };
/* `kinds`: names separated by commas, or "all". Stops at the first wrong case. Returns ZU_CHECK_EQUAL if something was compared and all was equal;
 * ZU_CHECK_KERNEL when the kernel ended the check. `report` may be null. */
int zu_check_op(const char* op, const char* kinds, zu_kernel kernel, void* user, zu_check_report* report);

#ifdef __cplusplus
}
#endif
