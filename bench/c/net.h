// Sockets, time and failure for the benchmark's programs. Linux only (epoll). Any surprise ends the program with a
// message: a benchmark that continues after an error measures something else.
#ifndef BENCH_NET_H
#define BENCH_NET_H
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { SCRATCH_BYTES = 256 * 1024, MAX_EVENTS = 256 };

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline void raise_descriptor_limit(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r)) die("getrlimit: %s", strerror(errno));
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    signal(SIGPIPE, SIG_IGN);
}

static inline struct sockaddr_in loopback(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static inline void no_delay(int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static inline int listen_on(int port) {
    struct sockaddr_in a = loopback(port);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 4096)) die("port %d: %s", port, strerror(errno));
    return fd;
}

static inline int accept_one(int listener) {  // -1: no connection is waiting
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED) die("accept: %s", strerror(errno));
    if (fd >= 0) no_delay(fd);
    return fd;
}

static inline int connect_to(int port) {  // non-blocking, under way
    struct sockaddr_in a = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket: %s", strerror(errno));
    no_delay(fd);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) && errno != EINPROGRESS) die("connect: %s", strerror(errno));
    return fd;
}

static inline void watch(int epoll, int operation, int fd, uint32_t events, void *whom) {
    struct epoll_event e = {.events = events, .data.ptr = whom};
    if (epoll_ctl(epoll, operation, fd, &e)) die("epoll_ctl: %s", strerror(errno));
}
#endif
