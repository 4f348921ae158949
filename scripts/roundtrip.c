/*
 * Round trips of small messages over TCP or SCTP, on the sockets of the system or of Carrick.
 *
 *   roundtrip server tcp|sctp PORT            answers one connection until it ends
 *   roundtrip client tcp|sctp PORT SIZE COUNT prints {"p50_us":...,"p99_us":...}
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SCTP_NODELAY 3

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void send_at_once(int fd, int sctp)
{
	int on = 1;
	int set = sctp ? setsockopt(fd, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof(on))
		       : setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (set != 0)
		fail("NODELAY");
}

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Reads size bytes; returns 0 at the end. */
static int receive(int fd, char *bytes, size_t size)
{
	size_t done = 0;
	while (done < size) {
		ssize_t len = recv(fd, bytes + done, size - done, 0);
		if (len < 0)
			fail("recv");
		if (len == 0)
			return 0;
		done += (size_t)len;
	}
	return 1;
}

static int compare(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;
	return (x > y) - (x < y);
}

int main(int count, char **words)
{
	if (count < 4)
		return 2;
	int sctp = strcmp(words[2], "sctp") == 0;
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(words[3])) };
	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	int fd = socket(AF_INET, SOCK_STREAM, sctp ? IPPROTO_SCTP : IPPROTO_TCP);
	if (fd < 0)
		fail("socket");
	static char bytes[65536];
	if (strcmp(words[1], "server") == 0) {
		int on = 1;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
			fail("bind");
		if (listen(fd, 1) != 0)
			fail("listen");
		puts("ready");
		fflush(stdout);
		int peer = accept(fd, NULL, NULL);
		if (peer < 0)
			fail("accept");
		send_at_once(peer, sctp);
		for (;;) {
			ssize_t len = recv(peer, bytes, sizeof(bytes), 0);
			if (len <= 0)
				return 0;
			if (send(peer, bytes, (size_t)len, MSG_NOSIGNAL) != len)
				fail("send");
		}
	}
	size_t size = (size_t)atoi(words[4]);
	long rounds = atol(words[5]);
	long *times = calloc((size_t)rounds, sizeof(long));
	if (times == NULL || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		fail("connect");
	send_at_once(fd, sctp);
	/* The first tenth is not counted. */
	for (long n = -rounds / 10; n < rounds; n++) {
		long begin = now();
		if (send(fd, bytes, size, 0) != (ssize_t)size)
			fail("send");
		if (!receive(fd, bytes, size))
			return 1;
		if (n >= 0)
			times[n] = now() - begin;
	}
	qsort(times, (size_t)rounds, sizeof(long), compare);
	printf("{\"p50_us\":%.1f,\"p99_us\":%.1f}\n", times[rounds / 2] / 1e3, times[rounds * 99 / 100] / 1e3);
	close(fd);
	return 0;
}
