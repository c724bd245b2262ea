// load: N connections of one kind of request, closed loop (each keeps D in flight) or open loop (R requests a second).
//
// Rules: correlation ids must come back in order and every reply must have the size it must have, or the program ends
// with an error. Open loop measures from the moment a request was meant to be sent, so a stall is not forgiven. Warm-up
// first; then "ready" is printed and nothing is in flight until a line is read; then it measures, drains, and prints one
// line of JSON. The proxy's CPU time between "ready" and the end is the cost of exactly these requests.
#include <sys/timerfd.h>

#include "kafka.h"
#include "net.h"

enum { SMALL_BYTES = 4096, CONNECTING_AT_ONCE = 64, MAX_DEPTH = 1024, BUCKETS = 64 * 64, PATIENCE_MS = 10000 };
enum { DIALING, GREETING, UP };

typedef struct {
    int fd, state, writing;
    uint32_t have, skip;             // of the reply under way: head bytes gathered, bytes to come
    uint32_t queued, sent, replied;  // correlation ids: next to hand out, next to send, next expected
    uint32_t phase_start;            // the first id of this phase
    size_t sent_bytes;               // of the request under way
    uint8_t head[8];
    uint64_t *started_ns;  // by id modulo depth; closed loop only
} conn;

static struct {
    int port, connections, depth, version, greet;
    double rate, seconds, warm_seconds;
    size_t value_bytes;
    char shape[16];
} options = {.connections = 10, .depth = 1, .version = 9, .seconds = 1, .warm_seconds = 0.2, .shape = "produce"};

static int epoll, timer = -1, up, dialing, opened;
static conn *conns;
static frame request, greeting;
static size_t reply_bytes;
static uint8_t scratch[SCRATCH_BYTES];
static uint64_t start_ns, stop_ns, last_reply_ns, in_flight, requests, bytes, max_ns, intended;
static uint64_t buckets[BUCKETS];
static int measuring, running;

static void record(uint64_t ns) {  // log-linear: 64 buckets to each doubling, so within 1.6 %
    if (ns > max_ns) max_ns = ns;
    int shift = ns < 128 ? 0 : 57 - __builtin_clzll(ns);
    buckets[(uint64_t)shift * 64 + (ns >> shift)]++;
}
static double quantile_us(double q) {
    uint64_t left = (uint64_t)(q * (double)requests);
    for (uint64_t i = 0; i < BUCKETS; i++) {
        if (left < buckets[i]) {
            uint64_t shift = i < 128 ? 0 : i / 64 - 1, value = i - shift * 64;
            return ((double)(value << shift) + (double)(1ull << shift) / 2) / 1000;
        }
        left -= buckets[i];
    }
    return (double)max_ns / 1000;
}

static uint64_t intended_ns(uint64_t index) { return start_ns + (uint64_t)((double)index * 1e9 / options.rate); }

static ssize_t send_some(conn *c, size_t *asked) {
    if (c->state == GREETING) {
        *asked = greeting.size - c->sent_bytes;
        return send(c->fd, greeting.bytes + c->sent_bytes, *asked, 0);
    }
    if (request.size > SMALL_BYTES) {
        uint8_t head[12];
        memcpy(head, request.bytes, 8), set32(head + CORRELATION_AT_REQUEST, c->sent);
        size_t from_head = c->sent_bytes < 12 ? 12 - c->sent_bytes : 0, past = c->sent_bytes + from_head;
        struct iovec v[2] = {{head + 12 - from_head, from_head}, {request.bytes + past, request.size - past}};
        *asked = request.size - c->sent_bytes;
        return sendmsg(c->fd, &(struct msghdr){.msg_iov = v, .msg_iovlen = 2}, 0);
    }
    size_t n = 0;
    for (uint32_t id = c->sent; id != c->queued && n + request.size <= sizeof scratch; id++, n += request.size) {
        memcpy(scratch + n, request.bytes, request.size);
        set32(scratch + n + CORRELATION_AT_REQUEST, id);
    }
    *asked = n - c->sent_bytes;
    return send(c->fd, scratch + c->sent_bytes, *asked, 0);
}

static void flush(conn *c) {
    size_t asked = 0, size = c->state == GREETING ? greeting.size : request.size;
    while (c->sent != c->queued) {
        ssize_t n = send_some(c, &asked);
        if (n < 0 && errno != EAGAIN) die("send: %s", strerror(errno));
        for (c->sent_bytes += n > 0 ? (size_t)n : 0; c->sent_bytes >= size; c->sent_bytes -= size) c->sent++;
        if (n < (ssize_t)asked) break;
    }
    int writing = c->sent != c->queued;
    if (writing != c->writing) watch(epoll, EPOLL_CTL_MOD, c->fd, writing ? EPOLLIN | EPOLLOUT : EPOLLIN, c);
    c->writing = writing;
}

static void queue(conn *c, uint64_t now) {  // closed loop
    c->started_ns[c->queued++ % (uint32_t)options.depth] = now;
    in_flight++;
}

static void dial_next(void) {
    while (opened < options.connections && dialing < CONNECTING_AT_ONCE) {
        conn *c = &conns[opened++];
        c->fd = connect_to(options.port);
        c->started_ns = calloc((size_t)options.depth, sizeof *c->started_ns);
        dialing++;
        watch(epoll, EPOLL_CTL_ADD, c->fd, EPOLLOUT, c);
    }
}
static void come_up(conn *c) {
    c->state = UP, up++, dialing--;
    dial_next();
}
static void on_dialed(conn *c) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) die("connection %ld: %s", (long)(c - conns), strerror(error));
    watch(epoll, EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
    if (!options.greet) return come_up(c);
    c->state = GREETING, c->queued = 1;
    flush(c);
}

static void on_reply(conn *c, uint32_t size, uint64_t now) {
    uint32_t id = get32(c->head + 4);
    if (id != c->replied) die("reply %u where %u was due", id, c->replied);
    c->replied++;
    if (c->state == GREETING) return come_up(c);
    if (size + 4 != reply_bytes) die("a reply of %u bytes, %zu were due", size + 4, reply_bytes);
    uint64_t nth = (uint64_t)(id - c->phase_start) * (uint64_t)options.connections + (uint64_t)(c - conns);
    uint64_t began = options.rate > 0 ? intended_ns(nth) : c->started_ns[id % (uint32_t)options.depth];
    if (measuring) record(now > began ? now - began : 0), requests++, bytes += request.size + reply_bytes;
    in_flight--, last_reply_ns = now;
    if (options.rate <= 0 && running && now < stop_ns) queue(c, now);
}

static void on_readable(conn *c) {
    ssize_t n = recv(c->fd, scratch, sizeof scratch, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) die("recv: %s", strerror(errno));
    if (n == 0) die("connection %ld was closed", (long)(c - conns));
    uint64_t now = now_ns();
    for (uint8_t *p = scratch, *end = scratch + n; p < end;) {
        size_t left = (size_t)(end - p);
        if (c->have < 8) {
            size_t take = left < 8 - c->have ? left : 8 - c->have;
            memcpy(c->head + c->have, p, take);
            p += take, c->have += (uint32_t)take;
            if (c->have == 8) {
                if (get32(c->head) < 4) die("a reply of %u bytes", get32(c->head));
                c->skip = get32(c->head) - 4;
            }
        } else {
            size_t take = left < c->skip ? left : c->skip;
            p += take, c->skip -= (uint32_t)take;
        }
        if (c->have == 8 && !c->skip) c->have = 0, on_reply(c, get32(c->head), now);
    }
    if (c->sent != c->queued && !c->writing) flush(c);
}

static void send_due(uint64_t now) {  // open loop
    for (; running && intended_ns(intended) <= now; intended++) {
        if (intended_ns(intended) >= stop_ns) {
            running = 0;
            return;
        }
        conn *c = &conns[intended % (uint64_t)options.connections];
        c->queued++, in_flight++;
        if (!c->writing) flush(c);
    }
    uint64_t at = intended_ns(intended);
    struct itimerspec t = {.it_value = {(time_t)(at / 1000000000), (long)(at % 1000000000)}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static void step(void) {
    struct epoll_event events[MAX_EVENTS];
    int n = epoll_wait(epoll, events, MAX_EVENTS, PATIENCE_MS);
    if (n == 0) die("nothing for %d s: %d of %d connected, %lu in flight", PATIENCE_MS / 1000, up, options.connections,
                    (unsigned long)in_flight);
    for (int i = 0; i < n; i++) {
        conn *c = events[i].data.ptr;
        uint64_t expired;
        if (!c) {
            if (read(timer, &expired, sizeof expired) > 0) send_due(now_ns());
        } else if (c->state == DIALING) {
            on_dialed(c);
        } else {
            if (events[i].events & EPOLLOUT) flush(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) on_readable(c);
        }
    }
}

static void run(double seconds) {
    start_ns = now_ns(), stop_ns = start_ns + (uint64_t)(seconds * 1e9), running = 1, intended = 0;
    last_reply_ns = start_ns;
    for (int i = 0; i < options.connections; i++) {
        conn *c = &conns[i];
        c->phase_start = c->queued;
        if (options.rate > 0) continue;
        for (int k = 0; k < options.depth; k++) queue(c, now_ns());
        flush(c);
    }
    if (options.rate > 0) send_due(now_ns());
    while (in_flight || (options.rate > 0 && running)) step();
    running = 0;
}

static void parse(int argc, char **argv) {
    for (int o; (o = getopt(argc, argv, "p:n:d:r:s:w:v:k:b:g")) != -1;) switch (o) {
            case 'p': options.port = atoi(optarg); break;
            case 'n': options.connections = atoi(optarg); break;
            case 'd': options.depth = atoi(optarg); break;
            case 'r': options.rate = atof(optarg); break;
            case 's': options.seconds = atof(optarg); break;
            case 'w': options.warm_seconds = atof(optarg); break;
            case 'v': options.version = atoi(optarg); break;
            case 'b': options.value_bytes = (size_t)atol(optarg); break;
            case 'g': options.greet = 1; break;
            case 'k': snprintf(options.shape, sizeof options.shape, "%s", optarg); break;
            default:
                die("usage: load -p PORT [-k produce|fetch|idle] [-n connections] [-d depth] [-r requests/s] "
                    "[-s seconds] [-w warm-up seconds] [-b value bytes] [-v Produce version] [-g (greet: ApiVersions)]");
        }
    if (!options.port || options.depth < 1 || options.depth > MAX_DEPTH || options.connections < 1)
        die("load: -p PORT, -n 1 or more, -d 1 to %d", MAX_DEPTH);
}

int main(int argc, char **argv) {
    char line[16];
    parse(argc, argv);
    raise_descriptor_limit();
    int fetch = !strcmp(options.shape, "fetch"), idle = !strcmp(options.shape, "idle");
    frame reply = fetch ? fetch_reply(options.value_bytes) : produce_reply();
    request = fetch ? fetch_request(options.value_bytes) : produce_request(options.version, options.value_bytes);
    reply_bytes = reply.size, greeting = api_versions_request();
    conns = calloc((size_t)options.connections, sizeof *conns);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    watch(epoll, EPOLL_CTL_ADD, timer, EPOLLIN, NULL);
    dial_next();
    while (up < options.connections) step();
    run(idle ? 0 : options.warm_seconds);  // 0: `depth` requests on each connection
    puts("ready"), fflush(stdout);
    if (!fgets(line, sizeof line, stdin) || idle) return 0;
    measuring = 1;
    run(options.seconds);
    double seconds = (double)(last_reply_ns - start_ns) / 1e9;
    printf("{\"requests\": %lu, \"seconds\": %.6f, \"bytes\": %lu, \"p50_us\": %.2f, \"p99_us\": %.2f}\n",
           (unsigned long)requests, seconds, (unsigned long)bytes, quantile_us(.5), quantile_us(.99));
    return 0;
}
