/* An echo server as programs of C have it: one thread that waits for all descriptors with poll. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS 64

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(1);
}

int main(int argc, char **argv) {
    struct pollfd polled[DESCRIPTORS];
    int count = 1;
    if (argc != 2)
        return 2;
    int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (listener < 0)
        fail("socket");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0)
        fail("bind");
    if (listen(listener, 16) < 0)
        fail("listen");
    puts("listening");
    fflush(stdout);
    polled[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (;;) {
        if (poll(polled, (nfds_t)count, -1) < 0) {
            if (errno == EINTR)
                continue;
            fail("poll");
        }
        for (int i = count - 1; i > 0; i--) {
            char buffer[4096];
            if (polled[i].revents == 0)
                continue;
            ssize_t length = recv(polled[i].fd, buffer, sizeof buffer, 0);
            if (length <= 0 || send(polled[i].fd, buffer, (size_t)length, MSG_NOSIGNAL) < 0) {
                printf("association ended: %s\n", length < 0 ? strerror(errno) : "end");
                fflush(stdout);
                close(polled[i].fd);
                polled[i] = polled[--count];
            }
        }
        if (polled[0].revents != 0) {
            int accepted = accept(listener, NULL, NULL);
            if (accepted < 0 && errno != EINTR && errno != ECONNABORTED && errno != EAGAIN)
                fail("accept");
            if (accepted >= 0 && count < DESCRIPTORS)
                polled[count++] = (struct pollfd){.fd = accepted, .events = POLLIN};
        }
    }
}
