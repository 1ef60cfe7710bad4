/* The lossless codec for other languages: frames of docs/spec/codec.md, coded on the CPU. C99.
 *
 * Every function returns 0 or one of the error numbers below, which are stable; zu_codec_error() says it in words. Buffers belong to the
 * caller, nothing is kept between calls, and any number of threads may call at once. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
