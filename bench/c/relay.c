// relay LISTEN_PORT UPSTREAM_PORT: the least a Kafka-aware proxy can do, as the yardstick for the ones that do more.
//
// Rules: level-triggered epoll, registered once; one receive per event into one shared scratch; every request's length
// and header are read, its client id compared with the connection's, its correlation id queued; every reply must carry
// the id at the head of the queue. Bytes are sent from the scratch at once; only what the kernel refuses is copied, and
// until that is sent the other side is not read. A violation closes the pair.
#include "kafka.h"
#include "net.h"

enum { HEAD_BYTES = 64, IN_FLIGHT = 1024, MAX_FRAME_BYTES = 100 * 1024 * 1024 };

struct pair;
typedef struct side {
    int fd, is_client, events;
    uint32_t have, skip;  // of the frame under way
    uint8_t *unsent;      // for this side, from the other
    size_t unsent_bytes, unsent_from;
    struct pair *pair;
    struct side *other;
    uint8_t head[HEAD_BYTES];
} side;
typedef struct pair {
    side client, broker;
    uint32_t *in_flight, room, first, count;
    uint8_t client_id[32];
    uint16_t client_id_bytes;
    uint64_t requests, request_bytes;
    struct pair *next_dead;
    int dead;
} pair;

static int epoll, upstream;
static uint8_t scratch[SCRATCH_BYTES];
static pair *dead;

static void end(pair *p) {
    if (p->dead) return;
    close(p->client.fd), close(p->broker.fd);
    p->dead = 1, p->next_dead = dead, dead = p;  // freed when this batch of events is done
}
static void bury(void) {
    for (pair *p; (p = dead);) {
        dead = p->next_dead;
        free(p->client.unsent), free(p->broker.unsent), free(p->in_flight), free(p);
    }
}

static int push(pair *p, uint32_t correlation_id) {
    if (p->count == p->room) {
        if (p->room == IN_FLIGHT) return 0;
        uint32_t room = p->room ? p->room * 2 : 8;
        uint32_t *grown = malloc(room * sizeof *grown);
        if (!grown) abort();
        for (uint32_t i = 0; i < p->count; i++) grown[i] = p->in_flight[(p->first + i) % p->room];
        free(p->in_flight);
        p->in_flight = grown, p->room = room, p->first = 0;
    }
    p->in_flight[(p->first + p->count++) % p->room] = correlation_id;
    return 1;
}

static int on_request(pair *p, const uint8_t *head, uint32_t gathered) {
    uint32_t size = get32(head), id_bytes = get16(head + 12);
    if (id_bytes == 0xffff) id_bytes = 0;
    if (size > MAX_FRAME_BYTES || id_bytes > sizeof p->client_id || 14 + id_bytes > gathered) return 0;
    if (id_bytes != p->client_id_bytes || memcmp(head + 14, p->client_id, id_bytes)) {
        memcpy(p->client_id, head + 14, id_bytes);
        p->client_id_bytes = (uint16_t)id_bytes;
    }
    p->requests++, p->request_bytes += size;
    return push(p, get32(head + CORRELATION_AT_REQUEST));
}

static int on_reply(pair *p, const uint8_t *head) {
    if (!p->count || p->in_flight[p->first] != get32(head + CORRELATION_AT_REPLY)) return 0;
    p->first = (p->first + 1) % p->room, p->count--;
    return 1;
}

// How much of a frame has to be seen, by what of it is there: the length, then the header.
static uint32_t head_bytes(const side *s, const uint8_t *p, uint32_t there) {
    if (!s->is_client) return 8;
    if (there < 4) return 14;
    uint32_t whole = get32(p) > MAX_FRAME_BYTES ? HEAD_BYTES : get32(p) + 4;
    return whole < HEAD_BYTES ? whole : HEAD_BYTES;
}

static int parse(side *s, uint8_t *p, uint8_t *stop) {
    while (p < stop) {
        uint32_t left = (uint32_t)(stop - p);
        if (s->skip) {
            uint32_t take = left < s->skip ? left : s->skip;
            p += take, s->skip -= take;
            continue;
        }
        const uint8_t *head = p;
        uint32_t there = left, need = head_bytes(s, p, left);
        if (s->have || left < need) {  // in pieces: gather
            uint32_t before = s->have;
            need = head_bytes(s, s->head, before);
            uint32_t step = before < 4 ? 4 : need;
            uint32_t take = left < step - before ? left : step - before;
            memcpy(s->head + before, p, take);
            p += take, s->have += take;
            if (s->have < 4 || s->have < head_bytes(s, s->head, s->have)) continue;
            head = s->head, there = s->have, s->have = 0;
        }
        uint32_t size = get32(head) + 4;
        if (size < (s->is_client ? 14u : 8u)) return 0;
        if (!(s->is_client ? on_request(s->pair, head, there) : on_reply(s->pair, head))) return 0;
        if (head == p) {
            uint32_t take = left < size ? left : size;
            p += take, s->skip = size - take;
        } else {
            s->skip = size - there;
        }
    }
    return 1;
}

static void expect(side *s) {  // read unless the other side is full; write while bytes wait
    int events = (s->other->unsent_bytes ? 0 : EPOLLIN) | (s->unsent_bytes ? EPOLLOUT : 0);
    if (events != s->events) watch(epoll, EPOLL_CTL_MOD, s->fd, (uint32_t)events, s);
    s->events = events;
}

static int deliver(side *to, const uint8_t *bytes, size_t n) {
    ssize_t sent = send(to->fd, bytes, n, 0);
    if (sent < 0 && errno != EAGAIN) return 0;
    size_t rest = n - (sent > 0 ? (size_t)sent : 0);
    if (!rest) return 1;
    to->unsent = malloc(rest);
    if (!to->unsent) abort();
    memcpy(to->unsent, bytes + n - rest, rest);
    to->unsent_bytes = rest, to->unsent_from = 0;
    return expect(to), expect(to->other), 1;
}

static int deliver_rest(side *to) {
    ssize_t sent = send(to->fd, to->unsent + to->unsent_from, to->unsent_bytes, 0);
    if (sent < 0) return errno == EAGAIN;
    to->unsent_from += (size_t)sent, to->unsent_bytes -= (size_t)sent;
    if (to->unsent_bytes) return 1;
    free(to->unsent), to->unsent = NULL;
    return expect(to), expect(to->other), 1;
}

static int on_event(side *s, uint32_t events) {
    if (events & EPOLLOUT && s->unsent_bytes && !deliver_rest(s)) return 0;
    if (events & (EPOLLHUP | EPOLLERR) && !(s->events & EPOLLIN)) return 0;  // it would spin
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || s->other->unsent_bytes) return 1;
    ssize_t n = recv(s->fd, scratch, sizeof scratch, 0);
    if (n <= 0) return n < 0 && errno == EAGAIN;
    return parse(s, scratch, scratch + n) && deliver(s->other, scratch, (size_t)n);
}

static void on_accept(int fd) {
    pair *p = calloc(1, sizeof *p);
    if (!p) abort();
    p->client = (side){.fd = fd, .is_client = 1, .events = EPOLLIN, .pair = p, .other = &p->broker};
    p->broker = (side){.fd = connect_to(upstream), .events = EPOLLIN, .pair = p, .other = &p->client};
    watch(epoll, EPOLL_CTL_ADD, p->client.fd, EPOLLIN, &p->client);
    watch(epoll, EPOLL_CTL_ADD, p->broker.fd, EPOLLIN, &p->broker);
}

int main(int argc, char **argv) {
    if (argc != 3) die("usage: relay LISTEN_PORT UPSTREAM_PORT");
    raise_descriptor_limit();
    upstream = atoi(argv[2]);
    int listener = listen_on(atoi(argv[1]));
    epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    struct epoll_event events[MAX_EVENTS];
    for (;;) {
        int n = epoll_wait(epoll, events, MAX_EVENTS, -1);
        for (int i = 0; i < n; i++) {
            side *s = events[i].data.ptr;
            if (!s) {
                for (int fd; (fd = accept_one(listener)) >= 0;) on_accept(fd);
            } else if (!s->pair->dead && !on_event(s, events[i].events)) {
                end(s->pair);
            }
        }
        bury();
    }
}
