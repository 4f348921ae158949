/* Calls of the sockets API, as programs make them. Each check has a process with a listening socket and
 * one that connects; `main` runs the one that its argument names. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sctp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                          \
	do {                                                                      \
		if (!(condition)) {                                               \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, \
				strerror(errno));                                 \
			exit(1);                                                  \
		}                                                                 \
	} while (0)

static struct sockaddr_in loopback(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static int listening(int *port)
{
	int s = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	CHECK(s >= 0);
	struct sockaddr_in a = loopback(0);
	CHECK(bind(s, (struct sockaddr *)&a, sizeof a) == 0);
	CHECK(listen(s, 5) == 0);
	socklen_t len = sizeof a;
	CHECK(getsockname(s, (struct sockaddr *)&a, &len) == 0 && len == sizeof a);
	*port = ntohs(a.sin_port);
	CHECK(*port != 0);
	return s;
}

static int connected(int port)
{
	int s = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	CHECK(s >= 0);
	struct sockaddr_in a = loopback(port);
	CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == 0);
	return s;
}

/* Returns two connected descriptors in one process. */
static void pair(int *a, int *b)
{
	int port, l = listening(&port);
	*a = connected(port);
	*b = accept(l, NULL, NULL);
	CHECK(*b >= 0);
	close(l);
}

static void child_succeeds(pid_t child)
{
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int option(int s, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof value;
	CHECK(getsockopt(s, level, name, &value, &len) == 0 && len == sizeof value);
	return value;
}

static void echo(void)
{
	int port, l = listening(&port);
	CHECK(option(l, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	CHECK(option(l, SOL_SOCKET, SO_DOMAIN) == AF_INET);
	CHECK(option(l, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_SCTP);
	CHECK(option(l, SOL_SOCKET, SO_ACCEPTCONN) == 1);
	pid_t child = fork();
	if (child == 0) {
		close(l);
		int s = connected(port);
		struct sockaddr_in a;
		socklen_t len = sizeof a;
		CHECK(getpeername(s, (struct sockaddr *)&a, &len) == 0 && ntohs(a.sin_port) == port);
		char buffer[100];
		for (int n = 0; n < 100; n++) {
			CHECK(write(s, &n, sizeof n) == sizeof n);
			CHECK(read(s, buffer, sizeof buffer) == sizeof n && memcmp(buffer, &n, sizeof n) == 0);
		}
		CHECK(shutdown(s, SHUT_WR) == 0);
		CHECK(read(s, buffer, sizeof buffer) == 0);
		CHECK(send(s, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
		exit(0);
	}
	struct sockaddr_in peer;
	socklen_t len = sizeof peer;
	int s = accept4(l, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
	CHECK(s >= 0 && len == sizeof peer && peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	CHECK(fcntl(s, F_GETFD) == FD_CLOEXEC);
	char buffer[1000];
	ssize_t n;
	while ((n = recv(s, buffer, sizeof buffer, 0)) > 0)
		CHECK(send(s, buffer, n, 0) == n);
	CHECK(n == 0);
	child_succeeds(child);
}

/* Messages larger than the buffer are read in parts, and end with MSG_EOR. */
static void parts(void)
{
	int a, b;
	pair(&a, &b);
	static char out[150000], in[150000];
	for (size_t n = 0; n < sizeof out; n++)
		out[n] = n % 251;
	const size_t sizes[] = { 1, 1000, 1001, 65536, 65537, 150000 };
	for (int round = 0; round < 6; round++) {
		size_t size = sizes[round], done = 0;
		CHECK(send(a, out, size, 0) == (ssize_t)size);
		struct pollfd p = { .fd = b, .events = POLLIN };
		CHECK(poll(&p, 1, 5000) == 1 && p.revents == POLLIN);
		if (size <= 1001) {
			int unread = 0;
			CHECK(ioctl(b, FIONREAD, &unread) == 0 && unread == (int)size);
			CHECK(recv(b, in, 10, MSG_PEEK) == (size < 10 ? (ssize_t)size : 10));
		}
		struct msghdr m = { 0 };
		do {
			struct iovec v = { in + done, 1000 };
			memset(&m, 0, sizeof m);
			m.msg_iov = &v;
			m.msg_iovlen = 1;
			ssize_t n = recvmsg(b, &m, 0);
			CHECK(n > 0 && n <= 1000);
			done += n;
		} while (!(m.msg_flags & MSG_EOR));
		CHECK(done == size && memcmp(in, out, size) == 0);
		CHECK(recv(b, in, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	}
}

/* A message that fits into the buffer is read by one call, also one that exceeds a frame and the pair. */
static void whole(void)
{
	int a, b;
	pair(&a, &b);
	static char out[500000], in[sizeof out + 1];
	for (size_t n = 0; n < sizeof out; n++)
		out[n] = n % 251;
	const size_t sizes[] = { 65536, 65537, 131072, 200000, sizeof out };
	for (int round = 0; round < 5; round++) {
		size_t size = sizes[round];
		CHECK(send(a, out, size, 0) == (ssize_t)size);
		CHECK(send(a, "next", 4, 0) == 4);
		/* The buffer has several parts. */
		struct iovec v[3] = { { in, 100000 }, { in + 100000, 1 }, { in + 100001, sizeof in - 100001 } };
		struct msghdr m = { .msg_iov = v, .msg_iovlen = 3 };
		memset(in, 0, sizeof in);
		CHECK(recvmsg(b, &m, 0) == (ssize_t)size && m.msg_flags == MSG_EOR);
		CHECK(memcmp(in, out, size) == 0 && in[size] == 0);
		CHECK(recv(b, in, sizeof in, 0) == 4 && memcmp(in, "next", 4) == 0);
	}
	/* A smaller buffer is filled, and the rest remains. */
	CHECK(send(a, out, 200000, 0) == 200000);
	struct iovec v = { in, 100000 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	CHECK(recvmsg(b, &m, 0) == 100000 && m.msg_flags == 0 && memcmp(in, out, 100000) == 0);
	m.msg_iovlen = 1;
	CHECK(recvmsg(b, &m, 0) == 100000 && m.msg_flags == MSG_EOR && memcmp(in, out + 100000, 100000) == 0);
	CHECK(recv(b, in, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
}

/* Two processes read from one descriptor: no message is lost, none comes twice. */
static void shared(void)
{
	enum { MESSAGES = 2000 };
	int a, b, results[2];
	pair(&a, &b);
	CHECK(pipe(results) == 0);
	pid_t readers[2];
	for (int reader = 0; reader < 2; reader++) {
		readers[reader] = fork();
		if (readers[reader] == 0) {
			close(a);
			unsigned char buffer[3000];
			size_t size = reader == 0 ? sizeof buffer : 100;
			ssize_t n;
			while ((n = read(b, buffer, size)) > 0) {
				/* Each byte of a message is the low or high part of its number. */
				CHECK(write(results[1], &n, sizeof n) == sizeof n);
			}
			exit(n == 0 ? 0 : 1);
		}
	}
	close(results[1]);
	close(b);
	unsigned char message[3000];
	memset(message, 7, sizeof message);
	size_t sent = 0, received = 0;
	pid_t writer = fork();
	for (int n = 0; n < MESSAGES; n++) {
		size_t size = 1 + n * 37 % sizeof message;
		sent += size;
		if (writer == 0)
			CHECK(send(a, message, size, 0) == (ssize_t)size);
	}
	if (writer == 0) {
		CHECK(shutdown(a, SHUT_WR) == 0);
		char end;
		CHECK(read(a, &end, 1) == 0);
		exit(0);
	}
	close(a);
	ssize_t n;
	while (read(results[0], &n, sizeof n) == sizeof n)
		received += n;
	CHECK(received == sent);
	child_succeeds(writer);
	child_succeeds(readers[0]);
	child_succeeds(readers[1]);
}

static void refused(void)
{
	int port, l = listening(&port);
	close(l);
	struct sockaddr_in a = loopback(port);
	int s = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == ECONNREFUSED);
	/* As on Linux, the result of connect leaves the pending error. */
	CHECK(option(s, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
	CHECK(option(s, SOL_SOCKET, SO_ERROR) == 0);
	CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == ECONNREFUSED);
	close(s);

	s = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
	CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == ECONNREFUSED);
	struct timeval limit = { .tv_usec = 100000 };
	CHECK(setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
	/* Packets to this UDP port are not answered. */
	int silent = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in there = loopback(0);
	socklen_t len = sizeof there;
	CHECK(bind(silent, (struct sockaddr *)&there, len) == 0);
	CHECK(getsockname(silent, (struct sockaddr *)&there, &len) == 0);
	struct sctp_udpencaps encapsulation = { .sue_port = there.sin_port };
	encapsulation.sue_address.ss_family = AF_INET;
	CHECK(setsockopt(s, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof encapsulation) == 0);
	CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == EINPROGRESS);
	CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == EALREADY);
	close(s);
	close(silent);

	int listener = listening(&port);
	a = loopback(port);
	s = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
	CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == 0);
	CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == EISCONN);
	close(s);
	close(listener);

	s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_SCTP);
	CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == EINPROGRESS);
	struct pollfd p = { .fd = s, .events = POLLIN | POLLOUT };
	CHECK(poll(&p, 1, 5000) == 1 && p.revents & POLLERR && p.revents & POLLHUP);
	CHECK(option(s, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
	CHECK(option(s, SOL_SOCKET, SO_ERROR) == 0);

	/* The socket can be used again. */
	l = listening(&port);
	a = loopback(port);
	CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == EINPROGRESS);
	p.events = POLLOUT;
	CHECK(poll(&p, 1, 5000) == 1 && p.revents == POLLOUT);
	CHECK(option(s, SOL_SOCKET, SO_ERROR) == 0);
	int b = accept(l, NULL, NULL);
	CHECK(send(s, "again", 5, 0) == 5);
	char buffer[10];
	CHECK(recv(b, buffer, sizeof buffer, 0) == 5 && memcmp(buffer, "again", 5) == 0);
	CHECK(recv(s, buffer, sizeof buffer, 0) == -1 && errno == EAGAIN);
}

/* A descriptor that a process gets by exec is recognised. */
static void exec_keeps(const char *self)
{
	int a, b;
	pair(&a, &b);
	pid_t child = fork();
	if (child == 0) {
		char number[20];
		snprintf(number, sizeof number, "%d", b);
		const char *other = getenv("CHECKS_EXECUTED");
		const char *program = other ? other : self;
		execl(program, program, "executed", number, NULL);
		exit(1);
	}
	close(b);
	char buffer[10];
	CHECK(send(a, "ping", 4, 0) == 4);
	CHECK(recv(a, buffer, sizeof buffer, 0) == 4 && memcmp(buffer, "gnip", 4) == 0);
	CHECK(recv(a, buffer, sizeof buffer, 0) == 0);
	child_succeeds(child);
}

static void executed(int fd)
{
	char buffer[10];
	CHECK(recv(fd, buffer, sizeof buffer, 0) == 4 && memcmp(buffer, "ping", 4) == 0);
#ifdef SUPERVISED
	/* Calls on a number that is not reserved would not be noticed. */
	CHECK(dup2(fd, 0) == -1 && errno == EBADF);
	CHECK(send(fd, "gnip", 4, 0) == 4);
#else
	CHECK(dup2(fd, 0) == 0);
	close(fd);
	CHECK(send(0, "gnip", 4, 0) == 4);
#endif
}

/* Bytes that did not pass the library end the descriptor. */
static void garbage(void)
{
	int a, b;
	pair(&a, &b);
	CHECK(syscall(SYS_write, a, "GET / HTTP/1.1", 14) == 14);
	char buffer[10];
	CHECK(recv(a, buffer, sizeof buffer, 0) == -1 && errno == ECONNABORTED);
	CHECK(recv(b, buffer, sizeof buffer, 0) == -1 && errno == ECONNRESET);
	CHECK(recv(b, buffer, sizeof buffer, 0) == 0);
	CHECK(send(b, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
}

/* Edge-triggered: one event for a message, and another one after EAGAIN. */
static void edges(void)
{
	int a, b, e = epoll_create1(0);
	pair(&a, &b);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	CHECK(epoll_ctl(e, EPOLL_CTL_ADD, b, &event) == 0);
	char buffer[10];
	for (int n = 0; n < 3; n++) {
		CHECK(send(a, "edge", 4, 0) == 4);
		CHECK(epoll_wait(e, &event, 1, 5000) == 1 && event.events == EPOLLIN);
		CHECK(epoll_wait(e, &event, 1, 20) == 0);
		CHECK(recv(b, buffer, sizeof buffer, MSG_DONTWAIT) == 4);
		CHECK(recv(b, buffer, sizeof buffer, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	}
	close(a);
	CHECK(epoll_wait(e, &event, 1, 5000) == 1);
	CHECK(recv(b, buffer, sizeof buffer, 0) == 0);
}

static void nothing(int signal)
{
	(void)signal;
}

static void times(void)
{
	int a, b;
	pair(&a, &b);
	struct timeval limit = { .tv_usec = 100000 };
	CHECK(setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
	struct timespec start, end;
	clock_gettime(CLOCK_MONOTONIC, &start);
	char buffer[10];
	CHECK(recv(b, buffer, sizeof buffer, 0) == -1 && errno == EAGAIN);
	clock_gettime(CLOCK_MONOTONIC, &end);
	long ms = (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000;
	CHECK(ms >= 90 && ms < 5000);
	limit.tv_usec = 0;
	CHECK(setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
	struct sigaction action = { .sa_handler = nothing };
	sigaction(SIGALRM, &action, NULL);
	ualarm(100000, 0);
	CHECK(recv(b, buffer, sizeof buffer, 0) == -1 && errno == EINTR);
}

/* Attributes of messages and notifications. */
static void attributes(void)
{
	int port, l = listening(&port);
	struct sctp_event_subscribe events = { .sctp_data_io_event = 1, .sctp_shutdown_event = 1 };
	CHECK(setsockopt(l, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0);
	int a = connected(port), b = accept(l, NULL, NULL);
	struct {
		struct cmsghdr header;
		struct sctp_sndrcvinfo info;
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof control.info),
				  .cmsg_level = IPPROTO_SCTP,
				  .cmsg_type = SCTP_SNDRCV } };
	control.info.sinfo_stream = 3;
	control.info.sinfo_ppid = htonl(46);
	char data[10] = "attribute";
	struct iovec v = { data, 9 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof control };
	CHECK(sendmsg(a, &m, 0) == 9);
	/* No such stream. */
	control.info.sinfo_stream = 60000;
	CHECK(sendmsg(a, &m, 0) == -1 && errno == EINVAL);

	char space[200];
	struct sockaddr_in from;
	m.msg_control = space;
	m.msg_controllen = sizeof space;
	m.msg_name = &from;
	m.msg_namelen = sizeof from;
	CHECK(recvmsg(b, &m, 0) == 9 && m.msg_flags == MSG_EOR);
	CHECK(from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	CHECK(c && c->cmsg_level == IPPROTO_SCTP && c->cmsg_type == SCTP_SNDRCV);
	struct sctp_sndrcvinfo *info = (struct sctp_sndrcvinfo *)CMSG_DATA(c);
	CHECK(info->sinfo_stream == 3 && info->sinfo_ppid == htonl(46) && info->sinfo_assoc_id > 2);
	close(a);
	union sctp_notification note;
	v.iov_base = &note;
	v.iov_len = sizeof note;
	m.msg_control = NULL;
	m.msg_controllen = 0;
	CHECK(recvmsg(b, &m, 0) > 0 && m.msg_flags == (MSG_NOTIFICATION | MSG_EOR));
	CHECK(note.sn_header.sn_type == SCTP_SHUTDOWN_EVENT);
}

/* Messages that the protocol refuses are errors of their call, and the association remains. */
static void refusals(void)
{
	int a, b;
	pair(&a, &b);
#ifndef SUPERVISED
	int outdated = dup(a);
#endif
	static char large[150000], in[sizeof large];
	struct sctp_sndinfo info = { .snd_sid = 60000 };
	CHECK(setsockopt(a, IPPROTO_SCTP, SCTP_DEFAULT_SNDINFO, &info, sizeof info) == 0);
	CHECK(send(a, "x", 1, 0) == -1 && errno == EINVAL);
#ifndef SUPERVISED
	/* The call on the duplicate does not know the option that was set on the other descriptor. */
	CHECK(send(outdated, "dropped", 7, 0) == 7);
	CHECK(option(a, SOL_SOCKET, SO_ERROR) == EINVAL);
	CHECK(option(a, SOL_SOCKET, SO_ERROR) == 0);
	CHECK(send(outdated, "dropped", 7, 0) == 7);
	CHECK(recv(a, in, sizeof in, 0) == -1 && errno == EINVAL);
#endif
	info.snd_sid = 3;
	CHECK(setsockopt(a, IPPROTO_SCTP, SCTP_DEFAULT_SNDINFO, &info, sizeof info) == 0);
	CHECK(send(a, "first", 5, 0) == 5);
	CHECK(recv(b, in, sizeof in, 0) == 5 && memcmp(in, "first", 5) == 0);

	/* Ancillary data of a wrong size. */
	struct {
		struct cmsghdr header;
		char info[32];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(struct sctp_sndinfo) + 4),
				  .cmsg_level = IPPROTO_SCTP,
				  .cmsg_type = SCTP_SNDINFO } };
	struct iovec v = { "x", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = CMSG_SPACE(sizeof(struct sctp_sndinfo) + 4) };
	CHECK(sendmsg(a, &m, 0) == -1 && errno == EINVAL);

	int on = 1;
	CHECK(setsockopt(a, IPPROTO_SCTP, SCTP_DISABLE_FRAGMENTS, &on, sizeof on) == 0);
	CHECK(send(a, large, sizeof large, 0) == -1 && errno == EMSGSIZE);
#ifndef SUPERVISED
	CHECK(send(outdated, large, sizeof large, 0) == sizeof large);
	CHECK(option(a, SOL_SOCKET, SO_ERROR) == EMSGSIZE);
#endif
	CHECK(send(a, "second", 6, 0) == 6);
	CHECK(recv(b, in, sizeof in, 0) == 6 && memcmp(in, "second", 6) == 0);
}

/* The notification of the end of an association comes before the end of messages. */
static void last(void)
{
	int port, l = listening(&port);
	struct sctp_event_subscribe events = { .sctp_association_event = 1, .sctp_shutdown_event = 1 };
	CHECK(setsockopt(l, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0);
	for (int round = 0; round < 50; round++) {
		int a = connected(port), b = accept(l, NULL, NULL);
		union sctp_notification note;
		CHECK(send(a, "data", 4, 0) == 4);
		CHECK(recv(b, &note, sizeof note, 0) == sizeof note.sn_assoc_change);
		CHECK(note.sn_assoc_change.sac_state == SCTP_COMM_UP);
		char data[10];
		CHECK(recv(b, data, sizeof data, 0) == 4);
		CHECK(shutdown(a, SHUT_WR) == 0);
		CHECK(recv(b, &note, sizeof note, 0) == sizeof note.sn_shutdown_event);
		CHECK(note.sn_header.sn_type == SCTP_SHUTDOWN_EVENT);
		/* Messages are refused from here on. */
		CHECK(send(b, "x", 1, MSG_NOSIGNAL) == -1 && (errno == EPIPE || errno == ESHUTDOWN));
		CHECK(recv(b, &note, sizeof note, 0) == sizeof note.sn_assoc_change);
		CHECK(note.sn_assoc_change.sac_state == SCTP_SHUTDOWN_COMP);
		CHECK(recv(b, data, sizeof data, 0) == 0);
		CHECK(recv(b, data, sizeof data, 0) == 0);
		close(a);
		close(b);
	}
	/* The descriptor remains after both directions were shut down. */
	int a = connected(port), b = accept(l, NULL, NULL);
	CHECK(shutdown(b, SHUT_RD) == 0);
	usleep(20000);
	CHECK(shutdown(b, SHUT_WR) == 0);
	usleep(20000);
	CHECK(option(b, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	close(a);
}

/* Sending fills the send buffer, and continues when the peer reads. */
static void pressure(void)
{
	int a, b;
	pair(&a, &b);
	CHECK(fcntl(a, F_SETFL, O_NONBLOCK) == 0);
	static char message[10000];
	long sent = 0, received = 0;
	while (send(a, message, sizeof message, 0) == sizeof message) {
		sent += sizeof message;
		CHECK(sent < 1 << 28);
	}
	CHECK(errno == EAGAIN);
	struct pollfd p = { .fd = a, .events = POLLOUT };
	/* What is on its way may free some room. */
	while (poll(&p, 1, 200) == 1)
		while (send(a, message, sizeof message, 0) == sizeof message)
			sent += sizeof message;
	CHECK(sent < 1 << 28);
	CHECK(read(b, message, sizeof message) == sizeof message);
	received += sizeof message;
	while (received < sent) {
		ssize_t n = read(b, message, sizeof message);
		CHECK(n > 0);
		received += n;
	}
	CHECK(poll(&p, 1, 5000) == 1 && p.revents == POLLOUT);
}

/* A thousand sockets are opened and closed. */
/* A supervised program gets reserved numbers. */
static int is_first_number(int fd)
{
#ifdef SUPERVISED
	return fd >= 900 && fd < 910;
#else
	return fd >= 0 && fd < 20;
#endif
}

/* Duplicates are descriptors of the same socket. */
static void duplicates(void)
{
	int a, b;
	pair(&a, &b);
	int copies[] = { dup(a), fcntl(a, F_DUPFD, 0), fcntl(a, F_DUPFD_CLOEXEC, a + 5) };
	CHECK(copies[2] >= a + 5 && fcntl(copies[2], F_GETFD) == FD_CLOEXEC);
	CHECK(fcntl(copies[1], F_GETFD) == 0);
	int other = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	CHECK(dup2(a, other) == other);
	char buffer[10];
	for (int n = 0; n < 3; n++) {
		CHECK(copies[n] >= 0 && write(copies[n], "copy", 4) == 4);
		CHECK(read(b, buffer, sizeof buffer) == 4);
		close(copies[n]);
	}
	close(a);
	CHECK(write(other, "copy", 4) == 4 && read(b, buffer, sizeof buffer) == 4);
	/* The number of a socket becomes that of another file. */
	int ends[2];
	CHECK(pipe(ends) == 0 && dup2(ends[1], other) == other);
	CHECK(write(other, "pipe", 4) == 4 && read(ends[0], buffer, sizeof buffer) == 4);
	CHECK(read(b, buffer, sizeof buffer) == 0);
}

/* Signals interrupt calls that wait, and no message is lost or passed twice. */
static void interrupted(void)
{
	enum { MESSAGES = 300 };
	int a, b;
	pair(&a, &b);
	pid_t sender = fork();
	if (sender == 0) {
		close(b);
		for (int n = 0; n < MESSAGES; n++) {
			struct timespec pause = { .tv_nsec = 1000000 * (n % 4) };
			nanosleep(&pause, NULL);
			CHECK(write(a, &n, sizeof n) == sizeof n);
		}
		exit(0);
	}
	close(a);
	struct sigaction action = { .sa_handler = nothing };
	for (int n = 0; n < MESSAGES; n++) {
		/* In the second half, the kernel restarts the call. */
		action.sa_flags = n < MESSAGES / 2 ? 0 : SA_RESTART;
		sigaction(SIGALRM, &action, NULL);
		ualarm(500, 500);
		int received = -1;
		ssize_t len;
		while ((len = read(b, &received, sizeof received)) == -1 && errno == EINTR) {
			CHECK(action.sa_flags == 0);
		}
		CHECK(len == sizeof received && received == n);
	}
	ualarm(0, 0);
	child_succeeds(sender);
	/* A call that waits longer is interrupted, whatever the load. */
	int c, d;
	pair(&c, &d);
	action.sa_flags = 0;
	sigaction(SIGALRM, &action, NULL);
	ualarm(50000, 0);
	CHECK(read(d, &c, sizeof c) == -1 && errno == EINTR);
}

static void leak(void)
{
	int port, l = listening(&port);
	for (int n = 0; n < 1000; n++) {
		int s = socket(AF_INET, n % 2 ? SOCK_STREAM : SOCK_SEQPACKET, IPPROTO_SCTP);
		CHECK(is_first_number(s));
		close(s);
	}
	for (int n = 0; n < 50; n++) {
		int a = connected(port), b = accept(l, NULL, NULL);
		CHECK(is_first_number(a) && is_first_number(b));
		close(a);
		char end;
		CHECK(read(b, &end, 1) == 0);
		close(b);
	}
}

/* The association of a process that is killed is shut down. */
static void killed(void)
{
	int port, l = listening(&port);
	pid_t child = fork();
	if (child == 0) {
		int s = connected(port);
		CHECK(send(s, "alive", 5, 0) == 5);
		pause();
	}
	int s = accept(l, NULL, NULL);
	char buffer[10];
	CHECK(recv(s, buffer, sizeof buffer, 0) == 5);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	CHECK(recv(s, buffer, sizeof buffer, 0) == 0);
	/* Neither direction passes messages. */
	struct pollfd p = { .fd = s, .events = 0 };
	CHECK(poll(&p, 1, 5000) == 1 && p.revents == POLLHUP);
	CHECK(send(s, "x", 1, MSG_NOSIGNAL) == -1 && (errno == EPIPE || errno == ESHUTDOWN));
}

/* The daemon is killed: every call returns an error, none blocks. */
static void orphaned(void)
{
	int a, b;
	pair(&a, &b);
	printf("{}\n");
	fflush(stdout);
	char buffer[10];
	CHECK(recv(a, buffer, sizeof buffer, 0) == -1 && errno == ECONNRESET);
	CHECK(send(b, "x", 1, MSG_NOSIGNAL) == -1 && errno == ECONNRESET);
	struct sockaddr_in name;
	socklen_t len = sizeof name;
	CHECK(getsockname(b, (struct sockaddr *)&name, &len) == -1 && errno == ECONNRESET);
	CHECK(socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP) == -1 && errno == EPROTONOSUPPORT);
	CHECK(socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP) == -1 && errno == ESOCKTNOSUPPORT);
}

static struct sockaddr_in local_address(int s)
{
	struct sockaddr_in a;
	socklen_t len = sizeof a;
	CHECK(getsockname(s, (struct sockaddr *)&a, &len) == 0);
	return a;
}

/* One-to-many: a message sets an association up, another process is its peer; an association is branched
 * off with the message that waits. */
static void many(void)
{
	int server = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
	struct sockaddr_in a = loopback(0);
	CHECK(bind(server, (struct sockaddr *)&a, sizeof a) == 0 && listen(server, 5) == 0);
	a = local_address(server);
	CHECK(accept(server, NULL, NULL) == -1 && errno == EOPNOTSUPP);
	struct sctp_event_subscribe events = { .sctp_data_io_event = 1 };
	CHECK(setsockopt(server, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0);
	int client = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
	CHECK(sendto(client, "one", 3, 0, (struct sockaddr *)&a, sizeof a) == 3);
	CHECK(sendto(client, "two", 3, 0, (struct sockaddr *)&a, sizeof a) == 3);

	char data[10], space[200];
	struct sockaddr_in from;
	struct iovec v = { data, sizeof data };
	struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &v,
			    .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space };
	CHECK(recvmsg(server, &m, 0) == 3 && memcmp(data, "one", 3) == 0);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	CHECK(c && c->cmsg_type == SCTP_SNDRCV);
	int id = ((struct sctp_sndrcvinfo *)CMSG_DATA(c))->sinfo_assoc_id;
	CHECK(from.sin_port == local_address(client).sin_port && id > 2);
	CHECK(sendto(server, "three", 5, 0, (struct sockaddr *)&from, sizeof from) == 5);
	CHECK(recv(client, data, sizeof data, 0) == 5 && memcmp(data, "three", 5) == 0);

	sctp_peeloff_arg_t branch = { .associd = id };
	socklen_t len = sizeof branch;
	int made = getsockopt(server, IPPROTO_SCTP, SCTP_SOCKOPT_PEELOFF, &branch, &len);
	CHECK(branch.sd > 2 && made == branch.sd);
	CHECK(option(branch.sd, SOL_SOCKET, SO_TYPE) == SOCK_SEQPACKET);
	CHECK(send(client, "four", 4, MSG_NOSIGNAL) == -1 && errno == EPIPE);
	CHECK(sendto(client, "four", 4, 0, (struct sockaddr *)&a, sizeof a) == 4);
	char last[10] = { 0 };
	CHECK(recv(branch.sd, last, sizeof last, 0) == 3 && memcmp(last, "two", 3) == 0);
	CHECK(recv(branch.sd, last, sizeof last, 0) == 4 && memcmp(last, "four", 4) == 0);
}

/* Large messages to one of many peers. */
static void large(void)
{
	int server = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
	struct sockaddr_in a = loopback(0);
	CHECK(bind(server, (struct sockaddr *)&a, sizeof a) == 0 && listen(server, 5) == 0);
	a = local_address(server);
	int client = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
	static char out[500000], in[sizeof out];
	for (size_t n = 0; n < sizeof out; n++)
		out[n] = n % 251;
	const size_t sizes[] = { 200000, 220000, 255 * 1024, 256 * 1024, 300000, sizeof out };
	for (int round = 0; round < 6; round++) {
		ssize_t size = sizes[round];
		CHECK(sendto(client, out, size, 0, (struct sockaddr *)&a, sizeof a) == size);
		CHECK(recv(server, in, sizeof in, 0) == size && memcmp(in, out, size) == 0);
	}
	static char huge[3 << 20];
	CHECK(option(client, SOL_SOCKET, SO_SNDBUF) < (int)sizeof huge);
	CHECK(sendto(client, huge, sizeof huge, 0, (struct sockaddr *)&a, sizeof a) == -1 && errno == EMSGSIZE);
	CHECK(sendto(client, "next", 4, 0, (struct sockaddr *)&a, sizeof a) == 4);
	CHECK(recv(server, in, sizeof in, 0) == 4);
}

/* Reads a message; returns the identifier of its association. */
static int receive_of(int s, char *data, size_t size, int flags)
{
	char space[200];
	struct iovec v = { data, size };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space };
	memset(data, 0, size);
	CHECK(recvmsg(s, &m, flags) > 0);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	CHECK(c && c->cmsg_type == SCTP_SNDRCV);
	return ((struct sctp_sndrcvinfo *)CMSG_DATA(c))->sinfo_assoc_id;
}

/* Unread messages of an association that is branched off, one of them read in part, go with it. Those of
 * another association stay, in their order. */
static void branched(void)
{
	int server = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
	struct sockaddr_in a = loopback(0);
	CHECK(bind(server, (struct sockaddr *)&a, sizeof a) == 0 && listen(server, 5) == 0);
	a = local_address(server);
	struct sctp_event_subscribe events = { .sctp_data_io_event = 1 };
	CHECK(setsockopt(server, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0);
	for (int round = 0; round < 2; round++) {
		int clients[2], ids[2];
		char data[20];
		for (int n = 0; n < 2; n++) {
			int on = 1;
			clients[n] = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
			CHECK(setsockopt(clients[n], IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on) == 0);
			CHECK(sendto(clients[n], "first", 5, 0, (struct sockaddr *)&a, sizeof a) == 5);
			ids[n] = receive_of(server, data, sizeof data, 0);
		}
		for (int n = 0; n < 20; n++) {
			snprintf(data, sizeof data, "message %d", n);
			CHECK(sendto(clients[n % 2], data, 10, 0, (struct sockaddr *)&a, sizeof a) == 10);
			/* Both have arrived in this order. */
			usleep(2000);
		}
		usleep(100000);
		CHECK(receive_of(server, data, 4, 0) == ids[0] && memcmp(data, "mess", 4) == 0);
		sctp_peeloff_arg_t branch = { .associd = ids[round] };
		socklen_t len = sizeof branch;
		CHECK(getsockopt(server, IPPROTO_SCTP, SCTP_SOCKOPT_PEELOFF, &branch, &len) > 2);
		for (int n = 0; n < 20; n++) {
			int here = n % 2 == round ? branch.sd : server;
			char expected[20];
			snprintf(expected, sizeof expected, "message %d", n);
			CHECK(receive_of(here, data, sizeof data, MSG_DONTWAIT) == ids[n % 2]);
			CHECK(strcmp(data, n == 0 ? "age 0" : expected) == 0);
		}
		CHECK(recv(server, data, sizeof data, MSG_DONTWAIT) == -1 && errno == EAGAIN);
		CHECK(recv(branch.sd, data, sizeof data, MSG_DONTWAIT) == -1 && errno == EAGAIN);
		close(branch.sd);
	}
}

int main(int count, char **arguments)
{
	const char *name = count > 1 ? arguments[1] : "";
	alarm(60);
	if (!strcmp(name, "echo"))
		echo();
	else if (!strcmp(name, "parts"))
		parts();
	else if (!strcmp(name, "whole"))
		whole();
	else if (!strcmp(name, "shared"))
		shared();
	else if (!strcmp(name, "refused"))
		refused();
	else if (!strcmp(name, "exec"))
		exec_keeps(arguments[0]);
	else if (!strcmp(name, "executed"))
		executed(atoi(arguments[2]));
	else if (!strcmp(name, "garbage"))
		garbage();
	else if (!strcmp(name, "edges"))
		edges();
	else if (!strcmp(name, "times"))
		times();
	else if (!strcmp(name, "attributes"))
		attributes();
	else if (!strcmp(name, "refusals"))
		refusals();
	else if (!strcmp(name, "last"))
		last();
	else if (!strcmp(name, "pressure"))
		pressure();
	else if (!strcmp(name, "duplicates"))
		duplicates();
	else if (!strcmp(name, "interrupted"))
		interrupted();
	else if (!strcmp(name, "leak"))
		leak();
	else if (!strcmp(name, "killed"))
		killed();
	else if (!strcmp(name, "orphaned"))
		orphaned();
	else if (!strcmp(name, "many"))
		many();
	else if (!strcmp(name, "large"))
		large();
	else if (!strcmp(name, "branched"))
		branched();
	else
		return 2;
	return 0;
}
