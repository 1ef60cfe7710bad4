/* Reads a stream of cases from standard input and answers on standard output (docs/spec/cases.md). C99 and C++; little-endian machines.
 *
 *   zc_case c;
 *   zc_begin();
 *   while (zc_next(&c)) {          // copies what it reads, as a kernel must
 *     const int16_t* codes = zc_input(&c, "codes")->data;
 *     ...
 *     zc_answer(&c, outputs);      // one pointer per output that the case asks for; or zc_decline(&c)
 *   }
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZC_MAX 16

typedef struct {
  char name[32];
  uint32_t type; /* as in zeroulp.h: 1 bf16, 3 f32, 7 i8, 8 u8, 9 i16, 10 i32, 11 i64 */
  uint32_t rank;
  int64_t shape[4];
  uint64_t bytes;
  const void* data; /* of an input */
} zc_tensor;

typedef struct {
  char name[32];
  uint32_t type; /* 1 integer, 2 real, 3 text */
  int64_t integer;
  double real;
  char text[64];
} zc_attribute;

typedef struct {
  int64_t index;
  uint32_t attributes, inputs, outputs;
  zc_attribute attribute[ZC_MAX];
  zc_tensor input[ZC_MAX], output[ZC_MAX];
  char* payload;
} zc_case;

static void zc_stop(const char* why) {
  fprintf(stderr, "stream of cases: %s\n", why);
  exit(3);
}

static void zc_read(void* to, size_t bytes) {
  if (fread(to, 1, bytes, stdin) != bytes) zc_stop("cut off");
}
static void zc_write(const void* from, size_t bytes) {
  if (fwrite(from, 1, bytes, stdout) != bytes) zc_stop("cannot write the answer");
}

static void zc_begin(void) {
  char fixed[16], *rest;
  uint32_t length;
  zc_read(fixed, 16);
  if (memcmp(fixed, "\x89ZUCAS\r\n", 8) != 0) zc_stop("not one");
  memcpy(&length, fixed + 12, 4);
  if (length > 65536) zc_stop("its header is too long");
  rest = (char*)malloc(length);
  zc_read(rest, length);
  zc_write(fixed, 16);
  zc_write(rest, length);
  free(rest);
}

static uint32_t zc_u32(const char** at) {
  uint32_t v;
  memcpy(&v, *at, 4);
  *at += 4;
  return v;
}
static int64_t zc_i64(const char** at) {
  int64_t v;
  memcpy(&v, *at, 8);
  *at += 8;
  return v;
}
/* u32 length, bytes, zeros to a multiple of 8; what does not fit is cut. */
static void zc_text(const char** at, char* to, size_t room) {
  const uint32_t length = zc_u32(at);
  const size_t kept = length < room ? length : room - 1;
  memcpy(to, *at, kept);
  to[kept] = '\0';
  *at += length + (8 - (length + 4) % 8) % 8;
}
static uint64_t zc_type_bytes(uint32_t type) { return type == 7 || type == 8 ? 1 : type == 1 || type == 9 ? 2 : type == 11 ? 8 : 4; }
static void zc_spec(const char** at, zc_tensor* t) {
  uint32_t i;
  zc_text(at, t->name, sizeof t->name);
  t->type = zc_u32(at);
  t->rank = zc_u32(at);
  if (t->rank > 4) zc_stop("too many dimensions");
  t->bytes = zc_type_bytes(t->type);
  for (i = 0; i < t->rank; ++i) t->bytes *= (uint64_t)(t->shape[i] = zc_i64(at));
}

/* 0: there is no more. The case before is then gone. */
static int zc_next(zc_case* c) {
  char prefix[16], unused[8];
  const char* at = prefix;
  uint32_t type, i;
  uint64_t length;
  static char* last = NULL;
  zc_read(prefix, 16);
  type = zc_u32(&at);
  memcpy(&length, prefix + 8, 8);
  free(last);
  last = c->payload = (char*)malloc(length + 1);
  if (c->payload == NULL) zc_stop("out of memory");
  zc_read(c->payload, length);
  zc_write(prefix, 16);
  zc_write(c->payload, length);
  if (type == 3) return 0;
  if (type != 1) zc_stop("a frame of an unknown type");
  at = c->payload;
  c->index = zc_i64(&at);
  zc_u32(&at); /* kind */
  c->attributes = zc_u32(&at);
  c->inputs = zc_u32(&at);
  c->outputs = zc_u32(&at);
  if (c->attributes > ZC_MAX || c->inputs > ZC_MAX || c->outputs > ZC_MAX) zc_stop("too many tensors or attributes");
  for (i = 0; i < 3; ++i) zc_text(&at, unused, sizeof unused); /* op, name, what it catches */
  for (i = 0; i < c->attributes; ++i) {
    zc_attribute* a = &c->attribute[i];
    zc_text(&at, a->name, sizeof a->name);
    a->type = zc_u32(&at);
    zc_u32(&at);
    a->text[0] = '\0';
    if (a->type == 3) {
      zc_text(&at, a->text, sizeof a->text);
    } else {
      memcpy(&a->integer, at, 8);
      memcpy(&a->real, at, 8);
      at += 8;
    }
  }
  for (i = 0; i < c->inputs; ++i) {
    zc_spec(&at, &c->input[i]);
    at += 8; /* bytes */
    c->input[i].data = at;
    at += (c->input[i].bytes + 7) / 8 * 8;
  }
  for (i = 0; i < c->outputs; ++i) zc_spec(&at, &c->output[i]);
  return 1;
}

static const zc_tensor* zc_input(const zc_case* c, const char* name) {
  uint32_t i;
  for (i = 0; i < c->inputs; ++i)
    if (strcmp(c->input[i].name, name) == 0) return &c->input[i];
  return NULL;
}
static const zc_attribute* zc_attribute_of(const zc_case* c, const char* name) {
  uint32_t i;
  for (i = 0; i < c->attributes; ++i)
    if (strcmp(c->attribute[i].name, name) == 0) return &c->attribute[i];
  return NULL;
}

static void zc_answer_with(const zc_case* c, const void* const* outputs, uint32_t count) {
  static const char zeros[8] = {0};
  const uint32_t type = 2, none = 0;
  uint64_t length = 16;
  uint32_t i;
  for (i = 0; i < count; ++i) {
    const uint64_t name = 4 + strlen(c->output[i].name);
    length += (name + 7) / 8 * 8 + 8 + 8 * c->output[i].rank + 8 + (c->output[i].bytes + 7) / 8 * 8;
  }
  zc_write(&type, 4);
  zc_write(&none, 4);
  zc_write(&length, 8);
  zc_write(&c->index, 8);
  zc_write(&count, 4);
  zc_write(&none, 4);
  for (i = 0; i < count; ++i) {
    const zc_tensor* t = &c->output[i];
    const uint32_t name = (uint32_t)strlen(t->name);
    zc_write(&name, 4);
    zc_write(t->name, name);
    zc_write(zeros, (8 - (name + 4) % 8) % 8);
    zc_write(&t->type, 4);
    zc_write(&t->rank, 4);
    zc_write(t->shape, 8 * t->rank);
    zc_write(&t->bytes, 8);
    zc_write(outputs[i], t->bytes);
    zc_write(zeros, (8 - t->bytes % 8) % 8);
  }
}
static void zc_answer(const zc_case* c, const void* const* outputs) { zc_answer_with(c, outputs, c->outputs); }
static void zc_decline(const zc_case* c) { zc_answer_with(c, NULL, 0); }
