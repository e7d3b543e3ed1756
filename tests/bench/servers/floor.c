// The floor: the least that any server must do. It reads frames, finds the id, and answers every request with the
// same words; raw bytes after the JSON are read and thrown away. No parsing, no tools, no limits, no errors.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char in[8 << 20], out[1 << 20];
static size_t filled, queued;

static void flush_answers(void) {
    for (size_t sent = 0; sent < queued;) {
        ssize_t n = write(1, out + sent, queued - sent);
        if (n <= 0) exit(1);
        sent += (size_t)n;
    }
    queued = 0;
}

static void answer(long long id) {
    char body[256];
    int n = snprintf(body, sizeof body,
                     "{\"type\":\"response\",\"seq\":1,\"request_seq\":%lld,\"command\":\"rrext_process\",\"success\":true,"
                     "\"body\":{\"pipe_id\":1,\"result\":{\"sum\":3}}}", id);
    queued += (size_t)sprintf(out + queued, "Content-Length: %d\r\n\r\n%s", n, body);
    if (queued > sizeof out - 1024) flush_answers();
}

// The rest of a body that is longer than what was read with it.
static void skip(size_t left) {
    while (left) {
        ssize_t n = read(0, in, left < sizeof in ? left : sizeof in);
        if (n <= 0) exit(1);
        left -= (size_t)n;
    }
}

int main(void) {
    for (;;) {
        ssize_t n = read(0, in + filled, sizeof in - filled);
        if (n <= 0) return 0;
        filled += (size_t)n;
        size_t at = 0;
        for (;;) {
            char *end = memmem(in + at, filled - at, "\r\n\r\n", 4);
            if (!end) break;
            char *length = memmem(in + at, (size_t)(end - in) - at, "Content-Length: ", 16);
            if (!length) return 2;
            size_t size = strtoul(length + 16, NULL, 10), start = (size_t)(end + 4 - in), have = filled - start;
            char *json = memmem(in + at, (size_t)(end - in) - at, "Json-Length: ", 13);
            if (have < (json ? strtoul(json + 13, NULL, 10) : size)) break;
            char *id = memmem(end, have < 256 ? have : 256, "\"seq\":", 6);
            answer(id ? atoll(id + 6) : 0); // leaves when the whole body is read
            if (have < size) {
                skip(size - have);
                at = filled;
                break;
            }
            at = start + size;
        }
        memmove(in, in + at, filled - at);
        filled -= at;
        flush_answers();
    }
}
