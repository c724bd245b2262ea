// Kafka frames as the benchmark's programs speak them: built once, then copied with a new correlation id.
//
// Rules: every frame is built whole, with its length prefix, and checked by size on the other side; a record batch
// carries one record of `value_bytes` and a true CRC, so a proxy that decodes it finds nothing wrong; client id is
// `bench`, topic `bench`, partition 0. Layouts: Kafka's own message schemas (ProduceRequest 9-11, FetchRequest 12,
// ApiVersionsRequest 0-3, MetadataResponse 0-12).
#ifndef BENCH_KAFKA_H
#define BENCH_KAFKA_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCE = 0, FETCH = 1, METADATA = 3, API_VERSIONS = 18 };
enum { CORRELATION_AT_REQUEST = 8, CORRELATION_AT_REPLY = 4 };  // offsets from the length prefix

typedef struct {
    uint8_t *bytes;
    size_t size;
} frame;

static inline uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static inline uint32_t get32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline void set32(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 24), p[1] = (uint8_t)(v >> 16), p[2] = (uint8_t)(v >> 8), p[3] = (uint8_t)v;
}

static inline uint8_t *put8(uint8_t *p, int v) { return *p = (uint8_t)v, p + 1; }
static inline uint8_t *put16(uint8_t *p, int v) { return p[0] = (uint8_t)(v >> 8), p[1] = (uint8_t)v, p + 2; }
static inline uint8_t *put32(uint8_t *p, uint32_t v) { return set32(p, v), p + 4; }
static inline uint8_t *put64(uint8_t *p, uint64_t v) { return put32(put32(p, (uint32_t)(v >> 32)), (uint32_t)v); }
static inline uint8_t *put_varint(uint8_t *p, uint64_t v) {
    for (; v > 127; v >>= 7) *p++ = (uint8_t)(v | 128);
    return *p++ = (uint8_t)v, p;
}
static inline uint8_t *put_zigzag(uint8_t *p, int64_t v) {
    return put_varint(p, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}
static inline uint8_t *put_string(uint8_t *p, const char *s) {  // int16 length
    size_t n = strlen(s);
    return memcpy(put16(p, (int)n), s, n), p + 2 + n;
}
static inline uint8_t *put_compact(uint8_t *p, const char *s) {  // varint length + 1
    size_t n = strlen(s);
    p = put_varint(p, n + 1);
    return memcpy(p, s, n), p + n;
}

static uint32_t crc32c(const uint8_t *p, size_t n) {
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
            table[i] = c;
        }
    uint32_t c = ~0u;
    while (n--) c = table[(c ^ *p++) & 255] ^ c >> 8;
    return ~c;
}

static uint8_t *put_batch(uint8_t *p, size_t value_bytes) {  // RecordBatch v2 with one record
    uint8_t *start = p;
    p = put64(p, 0), p = put32(p, 0), p = put32(p, 0), p = put8(p, 2), p = put32(p, 0);
    uint8_t *checked = p;
    p = put16(p, 0), p = put32(p, 0), p = put64(p, 0), p = put64(p, 0);  // attributes, last offset, timestamps
    p = put64(p, ~0ull), p = put16(p, -1), p = put32(p, ~0u), p = put32(p, 1);  // no producer id; one record
    uint8_t size[10];
    int64_t varint_bytes = put_zigzag(size, (int64_t)value_bytes) - size;
    p = put_zigzag(p, 5 + varint_bytes + (int64_t)value_bytes);
    p = put8(p, 0), p = put8(p, 0), p = put8(p, 0), p = put_zigzag(p, -1);  // attributes, deltas, no key
    p = put_zigzag(p, (int64_t)value_bytes);
    memset(p, 'x', value_bytes), p += value_bytes;
    p = put8(p, 0);  // no headers
    put32(start + 8, (uint32_t)(p - start - 12));
    put32(start + 17, crc32c(checked, (size_t)(p - checked)));
    return p;
}

static inline uint8_t *begin(frame *f, size_t room) {
    f->bytes = malloc(room);
    if (!f->bytes) abort();
    return f->bytes + 4;
}
static inline void finish(frame *f, uint8_t *end) {
    f->size = (size_t)(end - f->bytes);
    set32(f->bytes, (uint32_t)(f->size - 4));
}
static inline uint8_t *put_header(uint8_t *p, int api_key, int api_version) {  // request header v2
    p = put16(p, api_key), p = put16(p, api_version), p = put32(p, 0);
    return put8(put_string(p, "bench"), 0);
}

static inline frame api_versions_request(void) {
    frame f;
    uint8_t *p = put_header(begin(&f, 64), API_VERSIONS, 3);
    p = put_compact(p, "bench"), p = put_compact(p, "1"), p = put8(p, 0);
    return finish(&f, p), f;
}

static inline uint8_t *put_records(uint8_t *p, size_t value_bytes) {  // compact bytes around a batch
    uint8_t *batch = malloc(value_bytes + 128);
    if (!batch) abort();
    size_t n = (size_t)(put_batch(batch, value_bytes) - batch);
    p = put_varint(p, n + 1);
    memcpy(p, batch, n);
    free(batch);
    return p + n;
}

static inline frame produce_request(int api_version, size_t value_bytes) {
    frame f;
    uint8_t *p = put_header(begin(&f, value_bytes + 256), PRODUCE, api_version);
    p = put8(p, 0), p = put16(p, 1), p = put32(p, 30000);  // no transactional id, acks = 1, timeout
    p = put8(p, 2), p = put_compact(p, "bench"), p = put8(p, 2), p = put32(p, 0);
    p = put_records(p, value_bytes);
    p = put8(p, 0), p = put8(p, 0), p = put8(p, 0);
    return finish(&f, p), f;
}
static inline frame produce_reply(void) {  // v9 to v11
    frame f;
    uint8_t *p = put8(put32(begin(&f, 128), 0), 0);
    p = put8(p, 2), p = put_compact(p, "bench"), p = put8(p, 2);
    p = put32(p, 0), p = put16(p, 0), p = put64(p, 0), p = put64(p, ~0ull), p = put64(p, 0);
    p = put8(p, 1), p = put8(p, 0), p = put8(p, 0), p = put8(p, 0);  // no record errors, no message
    p = put32(p, 0), p = put8(p, 0);  // throttle_time_ms
    return finish(&f, p), f;
}

// `max_bytes` of the request says how large the one record of the reply is to be.
static inline frame fetch_request(size_t value_bytes) {
    frame f;
    uint8_t *p = put_header(begin(&f, 128), FETCH, 12);
    p = put32(p, ~0u), p = put32(p, 500), p = put32(p, 1), p = put32(p, (uint32_t)value_bytes), p = put8(p, 0);
    p = put32(p, 0), p = put32(p, ~0u);  // no session
    p = put8(p, 2), p = put_compact(p, "bench"), p = put8(p, 2);
    p = put32(p, 0), p = put32(p, ~0u), p = put64(p, 0), p = put32(p, ~0u), p = put64(p, ~0ull);
    p = put32(p, (uint32_t)value_bytes), p = put8(p, 0), p = put8(p, 0);
    p = put8(p, 1), p = put8(p, 1), p = put8(p, 0);  // nothing forgotten, no rack
    return finish(&f, p), f;
}
enum { FETCH_MAX_BYTES_AT = 12 };  // offset in the body
static inline frame fetch_reply(size_t value_bytes) {
    frame f;
    uint8_t *p = put8(put32(begin(&f, value_bytes + 256), 0), 0);
    p = put32(p, 0), p = put16(p, 0), p = put32(p, 0), p = put8(p, 2), p = put_compact(p, "bench"), p = put8(p, 2);
    p = put32(p, 0), p = put16(p, 0), p = put64(p, 1), p = put64(p, 1), p = put64(p, 0);
    p = put8(p, 0), p = put32(p, ~0u);  // no aborted transactions, no preferred replica
    p = put_records(p, value_bytes);
    p = put8(p, 0), p = put8(p, 0), p = put8(p, 0);
    return finish(&f, p), f;
}
#endif
