/* A streaming server without a model, for measuring clients: one thread, epoll, exact schedule.
 *
 *   null_sse_server INTERVAL_US LOGFILE
 *
 * It listens on a free port of loopback and prints the port. Every stream ticks on one grid of
 * INTERVAL_US; with 0 events leave as fast as the socket takes them. /generate (SGLang),
 * /v1/completions and /v1/chat/completions stream; everything else gets a small JSON answer. Each event
 * holds the CLOCK_MONOTONIC time at which it was made, just before it is sent. LOGFILE gets one line a
 * finished stream: events, and the times of the whole request, the first and the last event. It ends
 * when its standard input does.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

typedef long long nanoseconds;
enum kind { GENERATE, COMPLETIONS, CHAT, OTHER };
enum { MOST = 4096, FULL = 64 * 1024, EVENT = 1024 };

struct stream {
    int socket, streaming, writing, with_usage;
    enum kind kind;
    long events, sent;
    nanoseconds due, asked, first, last;
    char *in, *out;
    size_t in_size, in_room, out_start, out_size, out_room;
};

static struct stream *streams[MOST];
static int poll_fd;
static nanoseconds interval;
static FILE *log_file;

static nanoseconds now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void put(struct stream *s, const char *data, size_t size) {
    if (s->out_size + size > s->out_room) {
        s->out_room = 2 * (s->out_size + size);
        s->out = realloc(s->out, s->out_room);
    }
    memcpy(s->out + s->out_size, data, size);
    s->out_size += size;
}

static void put_event(struct stream *s, const char *json) {
    char head[32];
    size_t size = strlen(json);
    put(s, head, (size_t)sprintf(head, "%zx\r\ndata: ", size + 8));
    put(s, json, size);
    put(s, "\n\n\r\n", 4);
}

static void make_event(struct stream *s) {
    char json[EVENT];
    nanoseconds t = now();
    int last = ++s->sent == s->events;
    if (s->sent == 1) s->first = t;
    s->last = t;
    const char *stop = last ? "\"length\"" : "null";
    if (s->kind == GENERATE)
        sprintf(json,
                "{\"text\":\" word\",\"output_ids\":[7],\"meta_info\":{\"id\":\"5c1e0f6ab7d84f0f\",\"finish_reason\":%s,"
                "\"prompt_tokens\":1,\"cached_tokens\":0,\"completion_tokens\":%ld,\"sent_ns\":%lld}}",
                last ? "{\"type\":\"length\",\"length\":1}" : "null", s->sent, t);
    else if (s->kind == COMPLETIONS)
        sprintf(json,
                "{\"id\":\"5c1e0f6a\",\"object\":\"text_completion\",\"created\":1,\"model\":\"null\",\"choices\":"
                "[{\"index\":0,\"text\":\" word\",\"logprobs\":null,\"finish_reason\":%s}],\"usage\":null,\"sent_ns\":%lld}",
                stop, t);
    else
        sprintf(json,
                "{\"id\":\"5c1e0f6a\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"null\",\"choices\":"
                "[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\" word\"},\"finish_reason\":%s}],"
                "\"usage\":null,\"sent_ns\":%lld}",
                stop, t);
    put_event(s, json);
    if (!last) return;
    if (s->with_usage && s->kind != GENERATE) {
        sprintf(json,
                "{\"id\":\"5c1e0f6a\",\"object\":\"%s\",\"created\":1,\"model\":\"null\",\"choices\":[],\"usage\":"
                "{\"prompt_tokens\":128,\"completion_tokens\":%ld,\"total_tokens\":%ld}}",
                s->kind == CHAT ? "chat.completion.chunk" : "text_completion", s->events, 128 + s->events);
        put_event(s, json);
    }
    put_event(s, "[DONE]");
    put(s, "0\r\n\r\n", 5);
}

static void drop(struct stream *s) {
    streams[s->socket] = NULL;
    close(s->socket);
    free(s->in);
    free(s->out);
    free(s);
}

static void watch(struct stream *s, int writing) {
    if (s->writing == writing) return;
    s->writing = writing;
    struct epoll_event e = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.fd = s->socket};
    epoll_ctl(poll_fd, EPOLL_CTL_MOD, s->socket, &e);
}

/* Send what is there: 1 all gone, 0 the socket is full, -1 broken. */
static int flush_out(struct stream *s) {
    while (s->out_start < s->out_size) {
        ssize_t n = send(s->socket, s->out + s->out_start, s->out_size - s->out_start, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN) return -1;
            watch(s, 1);
            return 0;
        }
        s->out_start += (size_t)n;
    }
    s->out_start = s->out_size = 0;
    watch(s, 0);
    return 1;
}

static void finish(struct stream *s) {
    s->streaming = 0;
    if (log_file) {
        fprintf(log_file, "%ld %lld %lld %lld\n", s->events, s->asked, s->first, s->last);
        fflush(log_file);
    }
}

/* Move a stream on; 0 if it broke. */
static int advance(struct stream *s, nanoseconds t) {
    if (s->out_size && flush_out(s) < 0) return 0;
    while (s->streaming && !s->out_size) {
        if (s->sent == s->events) {
            finish(s);
            break;
        }
        if (interval) {
            if (s->due > t) break;
            make_event(s);
            s->due += interval;
        } else {
            while (s->sent < s->events && s->out_size < FULL) make_event(s);
        }
        if (flush_out(s) < 0) return 0;
        if (interval && s->sent < s->events) break;
    }
    return 1;
}

static long number_after(const char *body, const char *key) {
    const char *at = strstr(body, key);
    if (!at) return 0;
    at += strlen(key);
    while (*at == '"' || *at == ':' || *at == ' ') at++;
    return atol(at);
}

static void answer(struct stream *s, const char *head, const char *body) {
    char path[256] = "";
    sscanf(head, "%*15s %255s", path);
    s->kind = strstr(path, "/chat/completions") ? CHAT
              : strstr(path, "/completions")    ? COMPLETIONS
              : !strcmp(path, "/generate")      ? GENERATE
                                                : OTHER;
    int wants_stream = strstr(body, "\"stream\":true") || strstr(body, "\"stream\": true");
    if (s->kind == OTHER || !wants_stream) {
        const char *json = strstr(path, "models")
                               ? "{\"object\":\"list\",\"data\":[{\"id\":\"null\",\"object\":\"model\",\"created\":1,"
                                 "\"owned_by\":\"null\",\"root\":\"null\",\"max_model_len\":131072}]}"
                               : "{\"status\":\"ok\",\"internal_states\":[{}],\"version\":\"0\",\"text\":\"a\",\"choices\":"
                                 "[{\"index\":0,\"text\":\"a\",\"message\":{\"role\":\"assistant\",\"content\":\"a\"},"
                                 "\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,"
                                 "\"total_tokens\":2},\"meta_info\":{\"prompt_tokens\":1,\"completion_tokens\":1}}";
        char text[128];
        put(s, text,
            (size_t)sprintf(text, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n",
                            strlen(json)));
        put(s, json, strlen(json));
        flush_out(s);
        return;
    }
    s->events = number_after(body, "\"max_completion_tokens\"");
    if (s->events <= 0) s->events = number_after(body, "\"max_new_tokens\"");
    if (s->events <= 0) s->events = number_after(body, "\"max_tokens\"");
    if (s->events <= 0) s->events = 16;
    s->with_usage = strstr(body, "include_usage") != NULL;
    s->sent = 0;
    s->streaming = 1;
    s->asked = now();
    s->due = interval ? (s->asked / interval + 2) * interval : 0;
    const char *reply = "HTTP/1.1 200 OK\r\nserver: null\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                        "transfer-encoding: chunked\r\n\r\n";
    put(s, reply, strlen(reply));
    flush_out(s);
}

/* Take in what came; 0 once the peer has gone. */
static int receive(struct stream *s) {
    for (;;) {
        if (s->in_size + 4096 > s->in_room) {
            s->in_room = 2 * s->in_room + 8192;
            s->in = realloc(s->in, s->in_room + 1);
        }
        ssize_t n = recv(s->socket, s->in + s->in_size, s->in_room - s->in_size, 0);
        if (n == 0) return 0;
        if (n < 0) {
            if (errno != EAGAIN) return 0;
            break;
        }
        s->in_size += (size_t)n;
    }
    s->in[s->in_size] = 0;
    while (!s->streaming && s->in_size) {
        char *end = strstr(s->in, "\r\n\r\n");
        if (!end) break;
        size_t head = (size_t)(end - s->in) + 4;
        char *length = strcasestr(s->in, "\r\ncontent-length:");
        size_t body = length && length < end ? (size_t)atol(length + 17) : 0;
        char *expect = strcasestr(s->in, "\r\nexpect:");
        if (expect && expect < end && s->in_size < head + body) {
            put(s, "HTTP/1.1 100 Continue\r\n\r\n", 25);
            flush_out(s);
            expect[2] = '-';
        }
        if (s->in_size < head + body) break;
        char kept = s->in[head + body];
        s->in[head + body] = 0;
        end[2] = 0;
        answer(s, s->in, s->in + head);
        s->in[head + body] = kept;
        s->in_size -= head + body;
        memmove(s->in, s->in + head + body, s->in_size + 1);
    }
    return 1;
}

static void accept_all(int listener) {
    int on = 1;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0) return;
        if (fd >= MOST) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct stream *s = calloc(1, sizeof *s);
        s->socket = fd;
        streams[fd] = s;
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &e);
    }
}

static int listen_on_loopback(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    if (bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 1024)) {
        perror("null_sse_server");
        exit(1);
    }
    getsockname(listener, (struct sockaddr *)&a, &size);
    printf("%d\n", ntohs(a.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count, char **words) {
    if (count < 2) {
        fprintf(stderr, "usage: null_sse_server INTERVAL_US [LOGFILE]\n");
        return 2;
    }
    interval = atoll(words[1]) * 1000;
    log_file = count > 2 ? fopen(words[2], "w") : NULL;
    prctl(PR_SET_TIMERSLACK, 1);
    signal(SIGPIPE, SIG_IGN);
    poll_fd = epoll_create1(0);
    int listener = listen_on_loopback();
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, events[256];
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &e);
    struct epoll_event input = {.events = EPOLLIN, .data.fd = 0};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, 0, &input);
    for (;;) {
        nanoseconds t = now(), next = t + 1000000000LL;
        for (int fd = 0; fd < MOST; fd++) {
            struct stream *s = streams[fd];
            if (s && s->streaming && !s->out_size && s->due < next) next = s->due;
        }
        nanoseconds wait = next > t ? next - t : 0;
        struct timespec limit = {wait / 1000000000LL, wait % 1000000000LL};
        int ready = epoll_pwait2(poll_fd, events, 256, &limit, NULL);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            char c;
            if (fd == listener)
                accept_all(listener);
            else if (fd == 0) {
                if (read(0, &c, 1) <= 0) return 0;
            } else if (streams[fd] && (events[i].events & ~(unsigned)EPOLLOUT) && !receive(streams[fd]))
                drop(streams[fd]);
        }
        t = now();
        for (int fd = 0; fd < MOST; fd++)
            if (streams[fd] && (streams[fd]->streaming || streams[fd]->out_size) && !advance(streams[fd], t))
                drop(streams[fd]);
    }
}
