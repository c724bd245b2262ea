// broker PORT [NODE_ID]: answers Produce v9-v11, Fetch v12, ApiVersions and Metadata as cheaply as it can.
//
// Rules: a reply is queued when the whole request is in; replies leave in order; small ones are joined into one send;
// what the kernel does not take waits for EPOLLOUT. Request bodies are never looked at but for Fetch's max_bytes.
// Anything it cannot answer closes that connection, loudly.
#include "kafka.h"
#include "net.h"

enum { HEAD_BYTES = 132, RING = 256, SMALL_BYTES = 4096, SIZES = 16 };

typedef struct {
    const frame *what;
    uint32_t correlation_id;
} reply;
typedef struct {
    int fd, writing;
    uint32_t have, skip, first, count;  // head bytes gathered, body bytes to come; ring of replies
    size_t sent;                        // of the first reply
    uint8_t head[HEAD_BYTES];
    reply ring[RING];
} conn;

static int epoll, port, node_id;
static uint8_t scratch[SCRATCH_BYTES];
static frame produced, fetched[SIZES];
static size_t fetched_value[SIZES];

static const frame *fetch_reply_of(uint32_t value_bytes) {
    for (int i = 0; i < SIZES; i++) {
        if (!fetched[i].bytes) fetched_value[i] = value_bytes, fetched[i] = fetch_reply(value_bytes);
        if (fetched_value[i] == value_bytes) return &fetched[i];
    }
    die("more than %d sizes of fetch", SIZES);
}

static const frame *keep(frame f) {  // for rare frames: made each time, freed when sent
    frame *kept = malloc(sizeof f);
    if (!kept) abort();
    return *kept = f, kept;
}
static int is_kept(const frame *f) { return f != &produced && (f < fetched || f >= fetched + SIZES); }

static frame api_versions_reply(int version) {
    static const int offered[][3] = {{PRODUCE, 0, 11}, {FETCH, 4, 12}, {METADATA, 0, 12}, {API_VERSIONS, 0, 3}};
    frame f;
    int known = version <= 3, flexible = known && version == 3, n = sizeof offered / sizeof *offered;
    uint8_t *p = put16(put32(begin(&f, 256), 0), known ? 0 : 35);  // UNSUPPORTED_VERSION, in the shape of v0
    p = flexible ? put8(p, n + 1) : put32(p, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++) p = put16(p, offered[i][k]);
        if (flexible) p = put8(p, 0);
    }
    if (known && version) p = put32(p, 0);
    if (flexible) p = put8(p, 0);
    return finish(&f, p), f;
}

static frame metadata_reply(int version) {  // this broker alone, no topics
    frame f;
    int flexible = version >= 9;
    uint8_t *p = put32(begin(&f, 256), 0);
    if (flexible) p = put8(p, 0);
    if (version >= 3) p = put32(p, 0);
    p = flexible ? put8(p, 2) : put32(p, 1);
    p = put32(p, (uint32_t)node_id);
    p = flexible ? put_compact(p, "127.0.0.1") : put_string(p, "127.0.0.1");
    p = put32(p, (uint32_t)port);
    if (version >= 1) p = flexible ? put8(p, 0) : put16(p, -1);  // no rack
    if (flexible) p = put8(p, 0);
    if (version >= 2) p = flexible ? put_compact(p, "bench") : put_string(p, "bench");
    if (version >= 1) p = put32(p, (uint32_t)node_id);
    p = flexible ? put8(p, 1) : put32(p, 0);
    if (version >= 8 && version <= 10) p = put32(p, 0x80000000u);
    if (flexible) p = put8(p, 0);
    return finish(&f, p), f;
}

static int answer(conn *c) {  // 0: cannot
    const uint8_t *p = c->head + 4;
    int api_key = get16(p), version = get16(p + 2);
    const frame *what = NULL;
    if (api_key == PRODUCE && version >= 9 && version <= 11) {
        what = &produced;
    } else if (api_key == FETCH && version == 12) {
        const uint8_t *body = p + 10 + get16(p + 8) + 1;  // header v2 with no tags
        if (body + FETCH_MAX_BYTES_AT + 4 <= c->head + c->have) what = fetch_reply_of(get32(body + FETCH_MAX_BYTES_AT));
    } else if (api_key == API_VERSIONS) {
        what = keep(api_versions_reply(version));
    } else if (api_key == METADATA && version <= 12) {
        what = keep(metadata_reply(version));
    }
    if (!what || c->count == RING) {
        fprintf(stderr, "cannot answer api %d version %d (%u replies wait)\n", api_key, version, c->count);
        return 0;
    }
    c->ring[(c->first + c->count++) % RING] = (reply){what, get32(p + 4)};
    c->have = 0;
    return 1;
}

static ssize_t send_some(conn *c, size_t *asked) {
    const reply *r = &c->ring[c->first];
    if (r->what->size > SMALL_BYTES) {
        uint8_t head[8];
        memcpy(head, r->what->bytes, 4), set32(head + 4, r->correlation_id);
        size_t from_head = c->sent < 8 ? 8 - c->sent : 0, past = c->sent + from_head;
        struct iovec v[2] = {{head + 8 - from_head, from_head}, {r->what->bytes + past, r->what->size - past}};
        *asked = r->what->size - c->sent;
        return sendmsg(c->fd, &(struct msghdr){.msg_iov = v, .msg_iovlen = 2}, 0);
    }
    static uint8_t out[64 * 1024];
    size_t n = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        r = &c->ring[(c->first + i) % RING];
        if (r->what->size > SMALL_BYTES || n + r->what->size > sizeof out) break;
        memcpy(out + n, r->what->bytes, r->what->size);
        set32(out + n + CORRELATION_AT_REPLY, r->correlation_id);
        n += r->what->size;
    }
    *asked = n - c->sent;
    return send(c->fd, out + c->sent, n - c->sent, 0);
}

static int flush(conn *c) {  // 0: the connection is gone
    size_t asked = 0;
    while (c->count) {
        ssize_t n = send_some(c, &asked);
        if (n < 0 && errno != EAGAIN) return 0;
        for (c->sent += n > 0 ? (size_t)n : 0; c->count && c->sent >= c->ring[c->first].what->size; c->count--) {
            const frame *done = c->ring[c->first].what;
            c->sent -= done->size;
            c->first = (c->first + 1) % RING;
            if (is_kept(done)) free(done->bytes), free((void *)done);
        }
        if (n < (ssize_t)asked) break;
    }
    int writing = c->count > 0;
    if (writing != c->writing) watch(epoll, EPOLL_CTL_MOD, c->fd, writing ? EPOLLIN | EPOLLOUT : EPOLLIN, c);
    c->writing = writing;
    return 1;
}

static int read_requests(conn *c) {  // 0: the connection is gone
    ssize_t n = recv(c->fd, scratch, sizeof scratch, 0);
    if (n <= 0) return n < 0 && errno == EAGAIN;
    for (uint8_t *p = scratch, *end = scratch + n; p < end;) {
        size_t left = (size_t)(end - p);
        if (c->skip) {
            uint32_t take = left < c->skip ? (uint32_t)left : c->skip;
            p += take;
            if (!(c->skip -= take) && !answer(c)) return 0;
            continue;
        }
        uint32_t size = c->have >= 4 ? get32(c->head) : 0;
        uint32_t want = c->have < 4 ? 4 : size < HEAD_BYTES - 4 ? size + 4 : HEAD_BYTES;
        uint32_t take = left < want - c->have ? (uint32_t)left : want - c->have;
        memcpy(c->head + c->have, p, take);
        p += take, c->have += take;
        if (c->have == 4 && (get32(c->head) < 10 || get32(c->head) > 1u << 30)) return 0;
        if (c->have < want || want == 4) continue;
        c->skip = size + 4 - want;
        if (!c->skip && !answer(c)) return 0;
    }
    return flush(c);
}

int main(int argc, char **argv) {
    if (argc < 2) die("usage: broker PORT [NODE_ID]");
    port = atoi(argv[1]), node_id = argc > 2 ? atoi(argv[2]) : 0;
    raise_descriptor_limit();
    produced = produce_reply();
    int listener = listen_on(port);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    struct epoll_event events[MAX_EVENTS];
    for (;;) {
        int n = epoll_wait(epoll, events, MAX_EVENTS, -1);
        for (int i = 0; i < n; i++) {
            conn *c = events[i].data.ptr;
            if (!c) {
                for (int fd; (fd = accept_one(listener)) >= 0;) {
                    conn *fresh = calloc(1, sizeof *fresh);
                    if (!fresh) abort();
                    fresh->fd = fd;
                    watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, fresh);
                }
                continue;
            }
            int alive = 1;
            if (events[i].events & EPOLLOUT) alive = flush(c);
            if (alive && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) alive = read_requests(c);
            if (!alive) close(c->fd), free(c);
        }
    }
}
