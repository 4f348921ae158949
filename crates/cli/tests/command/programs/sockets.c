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
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
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

/* A system call without a function that a library could replace. The result is negative for an error. */
static long kernel_call(long number, long a, long b, long c, long d, long e)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
	__asm__ volatile("syscall"
			 : "+a"(number)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return number;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
#endif
}

/* Bytes that did not pass the library end the descriptor. */
static void garbage(void)
{
	int a, b;
	pair(&a, &b);
	CHECK(kernel_call(SYS_write, a, (long)"GET / HTTP/1.1", 14, 0, 0) == 14);
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

/* Servers ignore ECONNABORTED, and would try again for ever. */
static void deserted(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	struct sockaddr_in any = loopback(0);
	CHECK(bind(listener, (struct sockaddr *)&any, sizeof any) == 0 && listen(listener, 5) == 0);
	printf("{}\n");
	fflush(stdout);
	for (int i = 0; i < 5; i++)
		CHECK(accept(listener, NULL, NULL) == -1 && errno == ECONNRESET);
}

/* The daemon is killed while the server waits in epoll_wait, and started again with the listening socket: the association
 * that was accepted before ends, and another one is accepted with the options of the listening socket. */
static void restored(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), on = 1, accepted = -1, count = 0;
	struct sockaddr_in any = loopback(0);
	socklen_t len = sizeof any;
	CHECK(setsockopt(listener, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on) == 0);
	CHECK(bind(listener, (struct sockaddr *)&any, sizeof any) == 0 && listen(listener, 5) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&any, &len) == 0);
	printf("{\"port\": %d}\n", ntohs(any.sin_port));
	fflush(stdout);
	int epoll = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN, .data.fd = listener };
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == 0);
	while (count < 3) {
		char byte[100];
		CHECK(epoll_wait(epoll, &event, 1, 60000) == 1);
		if (event.data.fd == listener) {
			int value = 0;
			CHECK(event.events == EPOLLIN);
			accepted = accept(listener, NULL, NULL);
			CHECK(accepted >= 0);
			len = sizeof value;
			CHECK(getsockopt(accepted, IPPROTO_SCTP, SCTP_NODELAY, &value, &len) == 0 && value == 1);
			struct epoll_event added = { .events = EPOLLIN, .data.fd = accepted };
			CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, accepted, &added) == 0);
			continue;
		}
		ssize_t n = recv(accepted, byte, sizeof byte, 0);
		count++;
		if (count != 2) {
			CHECK(n > 0 && send(accepted, byte, n, 0) == n);
			printf("{\"accepted\": %d}\n", count);
		} else {
			CHECK(n == -1 && errno == ECONNRESET && close(accepted) == 0);
			printf("{\"reset\": 1}\n");
		}
		fflush(stdout);
	}
	struct sockaddr_in again;
	len = sizeof again;
	CHECK(getsockname(listener, (struct sockaddr *)&again, &len) == 0 && again.sin_port == any.sin_port);
	CHECK(setsockopt(listener, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on) == 0);
	/* The client reads the message before the end. */
	CHECK(close(accepted) == 0 && close(listener) == 0);
}

/* The end of an association is read without the daemon, which is stopped meanwhile. */
static void remembered(pid_t daemon)
{
	int a, b;
	char byte;
	pair(&a, &b);
	close(b);
	CHECK(recv(a, &byte, 1, 0) == 0);
	struct sctp_status status;
	socklen_t len = sizeof status;
	while (getsockopt(a, IPPROTO_SCTP, SCTP_STATUS, &status, &len) == 0)
		usleep(1000);
	CHECK(recv(a, &byte, 1, 0) == 0);
	kill(daemon, SIGSTOP);
	for (int i = 0; i < 1000; i++)
		CHECK(recv(a, &byte, 1, 0) == 0);
	kill(daemon, SIGCONT);
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
 * another association stay. Each association has its order; the one in which messages of two arrive is not known. */
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
		}
		/* Most of them have arrived. */
		usleep(100000);
		int begun = receive_of(server, data, 4, 0) == ids[1];
		CHECK(memcmp(data, "mess", 4) == 0);
		sctp_peeloff_arg_t branch = { .associd = ids[round] };
		socklen_t len = sizeof branch;
		CHECK(getsockopt(server, IPPROTO_SCTP, SCTP_SOCKOPT_PEELOFF, &branch, &len) > 2);
		for (int n = 0; n < 20; n++) {
			int here = n % 2 == round ? branch.sd : server;
			char expected[20];
			snprintf(expected, sizeof expected, "message %d", n);
			struct pollfd next = { .fd = here, .events = POLLIN };
			CHECK(poll(&next, 1, 10000) == 1);
			CHECK(receive_of(here, data, sizeof data, MSG_DONTWAIT) == ids[n % 2]);
			CHECK(strcmp(data, n == begun ? expected + 4 : expected) == 0);
		}
		CHECK(recv(server, data, sizeof data, MSG_DONTWAIT) == -1 && errno == EAGAIN);
		CHECK(recv(branch.sd, data, sizeof data, MSG_DONTWAIT) == -1 && errno == EAGAIN);
		close(branch.sd);
	}
}

/* Messages of one sendmmsg() arrive as those of as many sendmsg(): with their attributes, in their order, also around one
 * in parts and one that is refused. A call sends as many as there is room for. */
static void several(void)
{
	enum { COUNT = 40, LARGE = 20, ON_STREAM = 25 };
	int a, b, on = 1;
	pair(&a, &b);
	CHECK(setsockopt(b, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on) == 0);
	static char large[100000], in[sizeof large + 8];
	char texts[COUNT][20], control[CMSG_SPACE(sizeof(struct sctp_sndinfo))] = { 0 };
	struct iovec parts[COUNT][2];
	struct mmsghdr out[COUNT] = { 0 };
	memset(large, 'x', sizeof large);
	for (int n = 0; n < COUNT; n++) {
		snprintf(texts[n], sizeof texts[n], "message %02d", n);
		parts[n][0] = (struct iovec){ texts[n], 8 };
		parts[n][1] = n == LARGE ? (struct iovec){ large, sizeof large } : (struct iovec){ texts[n] + 8, 2 };
		out[n].msg_hdr = (struct msghdr){ .msg_iov = parts[n], .msg_iovlen = 2 };
	}
	struct cmsghdr *c = (struct cmsghdr *)control;
	struct sctp_sndinfo info = { .snd_sid = 3, .snd_ppid = htonl(60) };
	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof info), .cmsg_level = IPPROTO_SCTP, .cmsg_type = SCTP_SNDINFO };
	memcpy(CMSG_DATA(c), &info, sizeof info);
	out[ON_STREAM].msg_hdr.msg_control = control;
	out[ON_STREAM].msg_hdr.msg_controllen = sizeof control;
	CHECK(sendmmsg(a, out, COUNT, 0) == COUNT);
	for (int n = 0; n < COUNT; n++) {
		unsigned len = 8 + parts[n][1].iov_len;
		CHECK(out[n].msg_len == len);
		char space[200];
		struct iovec v = { in, sizeof in };
		struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space };
		size_t done = 0;
		do {
			v = (struct iovec){ in + done, sizeof in - done };
			m.msg_controllen = sizeof space;
			ssize_t got = recvmsg(b, &m, 0);
			CHECK(got > 0);
			done += got;
		} while (!(m.msg_flags & MSG_EOR));
		c = CMSG_FIRSTHDR(&m);
		CHECK(c && c->cmsg_type == SCTP_RCVINFO);
		CHECK(((struct sctp_rcvinfo *)CMSG_DATA(c))->rcv_sid == (n == ON_STREAM ? 3 : 0));
		CHECK(done == len && !memcmp(in, texts[n], 8) && !memcmp(in + 8, parts[n][1].iov_base, parts[n][1].iov_len));
	}

	info.snd_sid = 60000;
	memcpy(CMSG_DATA((struct cmsghdr *)control), &info, sizeof info);
	CHECK(sendmmsg(a, out + ON_STREAM, 2, 0) == -1 && errno == EINVAL);
	CHECK(sendmmsg(a, out + ON_STREAM - 2, 5, 0) == 2);
	CHECK(recv(b, in, sizeof in, 0) == 10 && recv(b, in, sizeof in, 0) == 10);

	/* Without a reader, calls fill what is between the sockets; all of it arrives in order. */
	static int calls[50000];
	int made = 0, sent = 0;
	while ((calls[made] = sendmmsg(a, out, LARGE, MSG_DONTWAIT)) > 0) {
		sent += calls[made++];
		CHECK(made < 50000);
	}
	CHECK(errno == EAGAIN && sent > LARGE);
	for (int call = 0; call < made; call++) {
		for (int n = 0; n < calls[call]; n++) {
			struct pollfd p = { .fd = b, .events = POLLIN };
			CHECK(poll(&p, 1, 10000) == 1 && recv(b, in, sizeof in, 0) == 10);
			CHECK(!memcmp(in, texts[n], 10));
		}
	}
	CHECK(recv(b, in, sizeof in, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	CHECK(shutdown(a, SHUT_WR) == 0);
	CHECK(sendmmsg(a, out, 2, MSG_NOSIGNAL) == -1 && errno == EPIPE);
}

/* The system calls of sockets by their numbers. */
static void syscalls(void)
{
	struct sockaddr_in a = loopback(0);
	socklen_t len = sizeof a;
	int l = syscall(SYS_socket, AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	CHECK(l >= 0);
	CHECK(syscall(SYS_bind, l, &a, len) == 0);
	CHECK(syscall(SYS_listen, l, 5) == 0);
	CHECK(syscall(SYS_getsockname, l, &a, &len) == 0 && a.sin_port != 0);
	int c = syscall(SYS_socket, AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	CHECK(syscall(SYS_connect, c, &a, len) == 0);
	int s = syscall(SYS_accept4, l, NULL, NULL, SOCK_CLOEXEC);
	CHECK(s >= 0 && syscall(SYS_fcntl, s, F_GETFD) == FD_CLOEXEC);
	struct sockaddr_in peer;
	CHECK(syscall(SYS_getpeername, c, &peer, &len) == 0 && peer.sin_port == a.sin_port);
	int on = 1, value = 0;
	CHECK(syscall(SYS_setsockopt, c, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on) == 0);
	len = sizeof value;
	CHECK(syscall(SYS_getsockopt, c, IPPROTO_SCTP, SCTP_NODELAY, &value, &len) == 0 && value == 1);

	char in[20];
	struct iovec v = { "vector", 6 }, w = { in, sizeof in };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 }, n = { .msg_iov = &w, .msg_iovlen = 1 };
	struct mmsghdr many = { .msg_hdr = m }, received = { .msg_hdr = n };
	CHECK(syscall(SYS_write, c, "write", 5) == 5);
	CHECK(syscall(SYS_read, s, in, sizeof in) == 5 && memcmp(in, "write", 5) == 0);
	CHECK(syscall(SYS_sendto, c, "sendto", 6, 0, NULL, 0) == 6);
	len = sizeof peer;
	CHECK(syscall(SYS_recvfrom, s, in, sizeof in, 0, &peer, &len) == 6 && len == sizeof peer);
	CHECK(syscall(SYS_writev, c, &v, 1) == 6);
	CHECK(syscall(SYS_readv, s, &w, 1) == 6 && memcmp(in, "vector", 6) == 0);
	CHECK(syscall(SYS_pwritev2, c, &v, 1, -1L, -1L, 0) == 6);
	CHECK(syscall(SYS_preadv2, s, &w, 1, -1L, -1L, 0) == 6);
	CHECK(syscall(SYS_pwritev2, c, &v, 1, 0L, 0L, 0) == -1 && errno == ESPIPE);
	CHECK(syscall(SYS_preadv2, s, &w, 1, -1L, -1L, 8 /* RWF_NOWAIT */) == -1 && errno == EAGAIN);
	CHECK(syscall(SYS_sendmsg, c, &m, 0) == 6);
	CHECK(syscall(SYS_recvmsg, s, &n, 0) == 6 && n.msg_flags == MSG_EOR);
	CHECK(syscall(SYS_sendmmsg, c, &many, 1, 0) == 1 && many.msg_len == 6);
	CHECK(syscall(SYS_recvmmsg, s, &received, 1, 0, NULL) == 1 && received.msg_len == 6);
	CHECK(syscall(SYS_write, c, "unread", 6) == 6);
	struct pollfd p = { .fd = s, .events = POLLIN };
	CHECK(poll(&p, 1, 5000) == 1);
	CHECK(syscall(SYS_ioctl, s, FIONREAD, &value) == 0 && value == 6);
	int t = syscall(SYS_dup, s);
	CHECK(syscall(SYS_dup3, t, 100, O_CLOEXEC) == 100);
	CHECK(syscall(SYS_close, s) == 0 && syscall(SYS_close, t) == 0);
	CHECK(syscall(SYS_read, 100, in, sizeof in) == 6);
	CHECK(syscall(SYS_shutdown, c, SHUT_WR) == 0);
	CHECK(syscall(SYS_read, 100, in, sizeof in) == 0);
	CHECK(syscall(SYS_close_range, 100, 100, 0) == 0);

	/* All others are the kernel's. */
	CHECK(syscall(SYS_getpid) == getpid());
	int ends[2];
	CHECK(syscall(SYS_pipe2, ends, 0) == 0);
	CHECK(syscall(SYS_write, ends[1], "pipe", 4) == 4 && syscall(SYS_read, ends[0], in, sizeof in) == 4);
	CHECK(syscall(SYS_splice, ends[0], NULL, c, NULL, 4, 0) == -1 && errno == EINVAL);
	CHECK(syscall(SYS_write, -1, "x", 1) == -1 && errno == EBADF);
	CHECK(syscall(100000L) == -1 && errno == ENOSYS);
	void *page = (void *)syscall(SYS_mmap, NULL, 4096L, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
	CHECK(page != MAP_FAILED && *(char *)page == 0);
}

#ifdef __GLIBC__
extern ssize_t __read(int, void *, size_t), __write(int, const void *, size_t), __send(int, const void *, size_t, int);
extern int __close(int), __connect(int, const struct sockaddr *, socklen_t), __dup2(int, int), __fcntl(int, int, ...);
#endif

/* Other names of the functions, in glibc, and those with an offset. */
static void names(void)
{
#ifdef __GLIBC__
	int port, l = listening(&port);
	int a = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	struct sockaddr_in there = loopback(port);
	CHECK(__connect(a, (struct sockaddr *)&there, sizeof there) == 0);
	int b = accept(l, NULL, NULL);
	char in[20];
	CHECK(__write(a, "write", 5) == 5 && __read(b, in, sizeof in) == 5);
	CHECK(__send(a, "send", 4, 0) == 4 && read(b, in, sizeof in) == 4);
	struct iovec v = { "vector", 6 }, w = { in, sizeof in };
	CHECK(pwritev2(a, &v, 1, -1, 0) == 6 && preadv2(b, &w, 1, -1, 0) == 6);
	CHECK(memcmp(in, "vector", 6) == 0);
	CHECK(preadv2(b, &w, 1, -1, RWF_NOWAIT) == -1 && errno == EAGAIN);
	CHECK(preadv2(b, &w, 1, 0, 0) == -1 && errno == ESPIPE);
	CHECK(pwritev2(a, &v, 1, -1, RWF_APPEND) == -1 && errno == EOPNOTSUPP);
	CHECK(__dup2(b, 50) == 50 && __fcntl(b, F_DUPFD, 60) == 60 && __close(b) == 0);
	CHECK(write(a, "copy", 4) == 4 && read(50, in, sizeof in) == 4);
	CHECK(write(a, "copy", 4) == 4 && read(60, in, sizeof in) == 4);

	FILE *file = tmpfile();
	CHECK(fwrite("a file", 6, 1, file) == 1 && fflush(file) == 0);
	w.iov_len = 2;
	CHECK(preadv2(fileno(file), &w, 1, 2, 0) == 2 && memcmp(in, "fi", 2) == 0);
	CHECK(pwritev2(fileno(file), &v, 1, 2, 0) == 6);
#endif
}

/* Sends a file, in messages that the peer receives in full. */
static void file(void)
{
	int a, b;
	pair(&a, &b);
	static char out[150000], in[sizeof out];
	for (size_t n = 0; n < sizeof out; n++)
		out[n] = n % 251;
	FILE *stored = tmpfile();
	CHECK(fwrite(out, sizeof out, 1, stored) == 1 && fflush(stored) == 0);
	int from = fileno(stored);
	CHECK(lseek(from, 50000, SEEK_SET) == 50000);
	for (int round = 0; round < 2; round++) {
		/* With an offset, the position of the file remains; without, it is the offset. */
		off_t offset = 10, begin = round == 0 ? offset : 50000;
		size_t size = sizeof out - begin, done = 0;
		CHECK(sendfile(a, from, round == 0 ? &offset : NULL, sizeof out) == (ssize_t)size);
		CHECK(offset == (round == 0 ? (off_t)sizeof out : 10));
		CHECK(lseek(from, 0, SEEK_CUR) == (round == 0 ? 50000 : (off_t)sizeof out));
		while (done < size) {
			ssize_t n = recv(b, in + done, sizeof in - done, 0);
			CHECK(n > 0 && n <= 65536);
			done += n;
		}
		CHECK(done == size && memcmp(in, out + begin, size) == 0);
	}
	off_t offset = -1;
	CHECK(sendfile(a, from, &offset, 1) == -1 && errno == EINVAL);
	int ends[2];
	CHECK(pipe(ends) == 0);
	CHECK(sendfile(a, ends[0], NULL, 1) == -1 && errno == EINVAL);
	CHECK(sendfile(a, -1, NULL, 1) == -1 && errno == EBADF);
	CHECK(recv(b, in, sizeof in, MSG_DONTWAIT) == -1 && errno == EAGAIN);
}

/* A descriptor that is received over another socket takes the number of a file that libc has closed unseen. */
static void passed(void)
{
	int a, b, ends[2];
	pair(&a, &b);
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
	for (int round = 0; round < 2; round++) {
		char space[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0, in[10];
		struct iovec v = { &byte, 1 };
		struct mmsghdr one = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = space,
						    .msg_controllen = sizeof space } };
		struct cmsghdr *c = CMSG_FIRSTHDR(&one.msg_hdr);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &b, sizeof b);
		CHECK(sendmsg(ends[0], &one.msg_hdr, 0) == 1);
		FILE *stored = fopen("/dev/zero", "r");
		int number = fileno(stored), got;
		CHECK(read(number, in, 1) == 1);
		fclose(stored);
		if (round == 0)
			CHECK(recvmsg(ends[1], &one.msg_hdr, 0) == 1);
		else
			CHECK(recvmmsg(ends[1], &one, 1, 0, NULL) == 1);
		memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&one.msg_hdr)), sizeof got);
		CHECK(got == number);
		CHECK(send(a, "passed", 6, 0) == 6);
		CHECK(recv(got, in, sizeof in, 0) == 6 && memcmp(in, "passed", 6) == 0);
		close(got);
	}
}

/* dup2 over a descriptor ends its association, and the number is that of the other file. */
static void replaced(void)
{
	int a, b, c, d;
	pair(&a, &b);
	pair(&c, &d);
	char in[10];
	CHECK(dup2(c, a) == a);
	CHECK(recv(b, in, sizeof in, 0) == 0);
	CHECK(send(a, "other", 5, 0) == 5);
	CHECK(recv(d, in, sizeof in, 0) == 5 && memcmp(in, "other", 5) == 0);
	CHECK(close(c) == 0);
	CHECK(send(d, "remains", 7, 0) == 7);
	CHECK(recv(a, in, sizeof in, 0) == 7);
	int null = open("/dev/null", O_RDWR);
	CHECK(dup3(null, a, O_CLOEXEC) == a);
	CHECK(recv(d, in, sizeof in, 0) == 0);
	CHECK(read(a, in, sizeof in) == 0 && write(a, "null", 4) == 4);
	CHECK(getsockopt(a, SOL_SOCKET, SO_TYPE, in, &(socklen_t){ 4 }) == -1 && errno == ENOTSOCK);
	/* And back. */
	int l, port;
	l = listening(&port);
	CHECK(dup2(connected(port), a) == a);
	CHECK(option(a, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_SCTP);
	b = accept(l, NULL, NULL);
	CHECK(write(a, "again", 5) == 5 && read(b, in, sizeof in) == 5);
}

/* Addresses of a socket by SCTP_GET_LOCAL_ADDRS or SCTP_GET_PEER_ADDRS; returns their number. */
static int addresses_of(int s, int name, struct sockaddr_in *found, int space)
{
	static char value[4096];
	struct sctp_getaddrs *list = (struct sctp_getaddrs *)value;
	memset(value, 0, sizeof value);
	socklen_t len = sizeof value;
	CHECK(getsockopt(s, IPPROTO_SCTP, name, value, &len) == 0);
	int count = list->addr_num, kept = 0;
	for (char *at = (char *)list->addrs; count-- > 0;) {
		struct sockaddr *one = (struct sockaddr *)at;
		if (one->sa_family == AF_INET && kept < space)
			memcpy(&found[kept++], one, sizeof *found);
		at += one->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	}
	return list->addr_num;
}

static int addresses_become(int s, int name, int count)
{
	struct sockaddr_in found[8];
	for (int n = 0; n < 500; n++) {
		if (addresses_of(s, name, found, 8) == count)
			return 1;
		usleep(10000);
	}
	return 0;
}

/* Addresses of both families and their mapped forms, those of a wildcard bind, and those that change. The host has
 * 127.0.0.1, 127.0.0.2 and ::1. */
static void addresses(void)
{
	/* A client of IPv4 at a socket of IPv6 has a mapped address there, and a mapped address reaches IPv4. */
	int l = socket(AF_INET6, SOCK_STREAM, IPPROTO_SCTP);
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 }, seen;
	CHECK(bind(l, (struct sockaddr *)&any, sizeof any) == 0 && listen(l, 5) == 0);
	socklen_t len = sizeof any;
	CHECK(getsockname(l, (struct sockaddr *)&any, &len) == 0 && IN6_IS_ADDR_UNSPECIFIED(&any.sin6_addr));
	struct sockaddr_in found[8];
	CHECK(addresses_of(l, SCTP_GET_LOCAL_ADDRS, found, 8) == 3);
	int a = connected(ntohs(any.sin6_port));
	len = sizeof seen;
	int b = accept(l, (struct sockaddr *)&seen, &len);
	CHECK(b >= 0 && len == sizeof seen && seen.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&seen.sin6_addr));
	close(a);
	close(b);
	a = socket(AF_INET6, SOCK_STREAM, IPPROTO_SCTP);
	struct sockaddr_in6 mapped = any;
	CHECK(inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr) == 1);
	CHECK(connect(a, (struct sockaddr *)&mapped, sizeof mapped) == 0);
	len = sizeof seen;
	CHECK(getpeername(a, (struct sockaddr *)&seen, &len) == 0 && IN6_IS_ADDR_V4MAPPED(&seen.sin6_addr));
	CHECK((b = accept(l, NULL, NULL)) >= 0);
	close(a);
	close(b);
	close(l);
	/* Not where the socket is for IPv6 alone. */
	int on = 1;
	a = socket(AF_INET6, SOCK_STREAM, IPPROTO_SCTP);
	CHECK(setsockopt(a, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0);
	CHECK(connect(a, (struct sockaddr *)&mapped, sizeof mapped) == -1);
	close(a);

	/* Off by default, as on Linux (RFC 5061, RFC 4895). */
	const int extensions[] = { SCTP_AUTH_SUPPORTED, SCTP_ASCONF_SUPPORTED };
	struct sctp_assoc_value enabled = { .assoc_value = 1 };

	/* A second address with port 0 gets the port of the first one. */
	int port;
	l = listening(&port);
	struct sockaddr_in second = loopback(0);
	second.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	CHECK(setsockopt(l, IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, &second, sizeof second) == 0);
	CHECK(addresses_of(l, SCTP_GET_LOCAL_ADDRS, found, 8) == 2);
	CHECK(ntohs(found[0].sin_port) == port && ntohs(found[1].sin_port) == port);
	struct sockaddr_in one = loopback(0);
	a = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	for (int n = 0; n < 2; n++) {
		CHECK(setsockopt(l, IPPROTO_SCTP, extensions[n], &enabled, sizeof enabled) == 0);
		CHECK(setsockopt(a, IPPROTO_SCTP, extensions[n], &enabled, sizeof enabled) == 0);
	}
	CHECK(bind(a, (struct sockaddr *)&one, sizeof one) == 0);
	one = loopback(port);
	CHECK(connect(a, (struct sockaddr *)&one, sizeof one) == 0);
	b = accept(l, NULL, NULL);
	CHECK(addresses_of(a, SCTP_GET_PEER_ADDRS, found, 8) == 2);
	CHECK(addresses_of(b, SCTP_GET_PEER_ADDRS, found, 8) == 1);

	/* Added and removed while the association is up. */
	second.sin_port = local_address(a).sin_port;
	CHECK(setsockopt(a, IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, &second, sizeof second) == 0);
	CHECK(addresses_become(b, SCTP_GET_PEER_ADDRS, 2));
	one = local_address(a);
	one.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	CHECK(setsockopt(a, IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_REM, &one, sizeof one) == 0);
	CHECK(addresses_become(b, SCTP_GET_PEER_ADDRS, 1));
	char in[10];
	CHECK(send(a, "remains", 7, 0) == 7 && recv(b, in, sizeof in, 0) == 7);
}

static volatile sig_atomic_t pipe_signals;

static void count_pipe_signal(int signal)
{
	(void)signal;
	pipe_signals++;
}

/* The errors of Linux, each by its cause. ECONNREFUSED and ECONNRESET are in other checks. */
static void errors(void)
{
	int port;
	CHECK(listening(&port) >= 0);
	struct sockaddr_in a = loopback(port);
	int s = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	CHECK(bind(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == EADDRINUSE);
	a.sin_addr.s_addr = htonl(0xc0000263); /* 192.0.2.99 */
	a.sin_port = 0;
	CHECK(bind(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == EADDRNOTAVAIL);

	/* Nothing answers on this UDP port. */
	int silent = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in there = loopback(0);
	socklen_t len = sizeof there;
	CHECK(bind(silent, (struct sockaddr *)&there, len) == 0);
	CHECK(getsockname(silent, (struct sockaddr *)&there, &len) == 0);
	struct sctp_udpencaps encapsulation = { .sue_port = there.sin_port };
	encapsulation.sue_address.ss_family = AF_INET;
	CHECK(setsockopt(s, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof encapsulation) == 0);
	struct sctp_initmsg set_up = { .sinit_max_attempts = 1, .sinit_max_init_timeo = 100 };
	CHECK(setsockopt(s, IPPROTO_SCTP, SCTP_INITMSG, &set_up, sizeof set_up) == 0);
	a = loopback(port);
	CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == ETIMEDOUT);
	close(s);

	s = connected(port);
	static char huge[3 << 20];
	CHECK(option(s, SOL_SOCKET, SO_SNDBUF) < (int)sizeof huge);
	CHECK(send(s, huge, sizeof huge, 0) == -1 && errno == EMSGSIZE);
	struct sigaction action = { .sa_handler = count_pipe_signal };
	sigaction(SIGPIPE, &action, NULL);
	CHECK(shutdown(s, SHUT_WR) == 0);
	CHECK(send(s, "x", 1, 0) == -1 && errno == EPIPE && pipe_signals == 1);
	CHECK(write(s, "x", 1) == -1 && errno == EPIPE && pipe_signals == 2);
	CHECK(send(s, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE && pipe_signals == 2);
}

/* Run by a user other than root. */
static void privileged(void)
{
	int s = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	struct sockaddr_in a = loopback(1023);
	CHECK(geteuid() != 0);
	CHECK(bind(s, (struct sockaddr *)&a, sizeof a) == -1 && errno == EACCES);
	a.sin_port = htons(1024);
	CHECK(bind(s, (struct sockaddr *)&a, sizeof a) == 0);
}

/* CARRICK_SOCKETS selects whose sockets are used. */
static void selection(void)
{
	const char *selected = getenv("CARRICK_SOCKETS");
	int in_kernel = kernel_call(SYS_socket, AF_INET, SOCK_STREAM, IPPROTO_SCTP, 0, 0) >= 0;
	int s = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), domain = 0;
	socklen_t len = sizeof domain;
	/* A descriptor of Carrick is a pair. */
	kernel_call(SYS_getsockopt, s, SOL_SOCKET, SO_DOMAIN, (long)&domain, (long)&len);
	if (!strcmp(selected, "never"))
		CHECK(in_kernel ? domain == AF_INET : s == -1 && errno == EPROTONOSUPPORT);
	else if (!strcmp(selected, "missing"))
		CHECK(domain == (in_kernel ? AF_INET : AF_UNIX));
	else
		CHECK(domain == AF_UNIX);
	/* TCP is the kernel's. */
	CHECK(socket(AF_INET, SOCK_STREAM, 0) >= 0);
	s = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
	CHECK((s >= 0) == (in_kernel || strcmp(selected, "never") != 0));
}

/* Leaves no room for another descriptor, all of which are `last` and below. Returns the limit before. */
static struct rlimit cram(int last)
{
	struct rlimit whole, low;
	CHECK(getrlimit(RLIMIT_NOFILE, &whole) == 0);
	low = whole;
	low.rlim_cur = last + 1;
	CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
	while (dup(0) >= 0)
		;
	CHECK(errno == EMFILE);
	return whole;
}

/* Without room for another descriptor, an association stays in the backlog. */
static void crammed(void)
{
	int port, l = listening(&port), c = connected(port);
	CHECK(send(c, "waits", 5, 0) == 5);
	struct rlimit whole = cram(c > l ? c : l);
	for (int i = 0; i < 3; i++)
		CHECK(accept(l, NULL, NULL) == -1 && errno == EMFILE);
	CHECK(setrlimit(RLIMIT_NOFILE, &whole) == 0);
	struct pollfd p = { .fd = l, .events = POLLIN };
	CHECK(poll(&p, 1, 10000) == 1);
	int s = accept(l, NULL, NULL);
	char in[8];
	CHECK(s >= 0 && recv(s, in, sizeof in, 0) == 5 && !memcmp(in, "waits", 5));
}

static int peeled_off(int s, int id)
{
	sctp_peeloff_arg_t branch = { .associd = id };
	socklen_t len = sizeof branch;
	return getsockopt(s, IPPROTO_SCTP, SCTP_SOCKOPT_PEELOFF, &branch, &len);
}

/* Without room for another descriptor, an association stays with its one-to-many socket and passes messages, until there is
 * room. Prints a line and waits for the end of the input in between. */
static void unbranched(void)
{
	int server = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
	struct sockaddr_in a = loopback(0);
	CHECK(bind(server, (struct sockaddr *)&a, sizeof a) == 0 && listen(server, 5) == 0);
	struct sctp_event_subscribe events = { .sctp_data_io_event = 1 };
	CHECK(setsockopt(server, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0);
	int c = connected(ntohs(local_address(server).sin_port));
	struct sockaddr_in peer = loopback(ntohs(local_address(c).sin_port));
	char data[20];
	CHECK(send(c, "first", 5, 0) == 5);
	int id = receive_of(server, data, sizeof data, 0);
	CHECK(send(c, "waits", 5, 0) == 5);
	struct pollfd p = { .fd = server, .events = POLLIN };
	CHECK(poll(&p, 1, 10000) == 1);

	struct rlimit whole = cram(c > server ? c : server);
	for (int i = 0; i < 3; i++)
		CHECK(peeled_off(server, id) == -1 && errno == EMFILE);
	CHECK(receive_of(server, data, sizeof data, MSG_DONTWAIT) == id && !strcmp(data, "waits"));
	CHECK(sendto(server, "answer", 6, 0, (struct sockaddr *)&peer, sizeof peer) == 6);
	CHECK(recv(c, data, sizeof data, 0) == 6 && !memcmp(data, "answer", 6));
	CHECK(send(c, "second", 6, 0) == 6);
	CHECK(receive_of(server, data, sizeof data, 0) == id && !strcmp(data, "second"));
	printf("{}\n");
	fflush(stdout);
	getchar();

	CHECK(setrlimit(RLIMIT_NOFILE, &whole) == 0);
	CHECK(send(c, "third", 5, 0) == 5);
	CHECK(poll(&p, 1, 10000) == 1);
	int branch = peeled_off(server, id);
	CHECK(branch > 2 && receive_of(branch, data, sizeof data, 0) == id && !strcmp(data, "third"));
	CHECK(recv(server, data, sizeof data, MSG_DONTWAIT) == -1 && errno == EAGAIN);
}

static int sctp(void)
{
	return socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
}

/* Opens sockets until a hundred have been refused, and keeps them until the end of the input. The first refusal is not
   the last success: a file that the daemon closes at that moment counts until it is closed. */
static void exhaust(void)
{
	int count = 0, refused = 0;
	while (refused < 100) {
		if (sctp() >= 0) {
			count++;
			continue;
		}
		CHECK(errno == EMFILE);
		refused++;
	}
	printf("%d\n", count);
	fflush(stdout);
	getchar();
}

/* Accepts associations, reads nothing and closes none, until the end of the input. */
static void hoard(void)
{
	int port, l = listening(&port);
	CHECK(listen(l, 100) == 0);
	printf("%d\n", port);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		for (;;)
			accept(l, NULL, NULL);
	getchar();
	kill(child, SIGKILL);
}

/* Connects 35 times to the port in the environment, and keeps the associations until the end of the input. */
static void crowd(void)
{
	for (int i = 0; i < 35; i++)
		connected(atoi(getenv("PORT")));
	printf("{}\n");
	fflush(stdout);
	getchar();
}

/* Twenty processes with an association each, which pass messages until the daemon is killed. */
static void orphans(void)
{
	int ready[2];
	char byte;
	CHECK(pipe(ready) == 0);
	pid_t children[20];
	for (int i = 0; i < 20; i++) {
		children[i] = fork();
		if (children[i] != 0)
			continue;
		int a, b;
		pair(&a, &b);
		CHECK(write(ready[1], "", 1) == 1);
		while (send(a, "x", 1, MSG_NOSIGNAL) == 1 && recv(b, &byte, 1, 0) == 1)
			;
		CHECK(errno == ECONNRESET);
		CHECK(recv(a, &byte, 1, 0) == -1);
		CHECK(send(b, "x", 1, MSG_NOSIGNAL) == -1);
		exit(0);
	}
	for (int i = 0; i < 20; i++)
		CHECK(read(ready[0], &byte, 1) == 1);
	printf("{}\n");
	fflush(stdout);
	for (int i = 0; i < 20; i++)
		child_succeeds(children[i]);
}

/* SO_LINGER with time 0 makes the end of a killed program an ABORT. */
static void aborted(void)
{
	int port, l = listening(&port);
	pid_t child = fork();
	if (child == 0) {
		int s = connected(port);
		struct linger abort = { .l_onoff = 1, .l_linger = 0 };
		CHECK(setsockopt(s, SOL_SOCKET, SO_LINGER, &abort, sizeof abort) == 0);
		CHECK(send(s, "alive", 5, 0) == 5);
		pause();
	}
	int s = accept(l, NULL, NULL);
	char buffer[10];
	CHECK(recv(s, buffer, sizeof buffer, 0) == 5);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	CHECK(recv(s, buffer, sizeof buffer, 0) == -1 && errno == ECONNRESET);
}

/* A child that inherits a descriptor and forgets it keeps the association, until it ends. Others are served. */
static void forgotten(void)
{
	int port, l = listening(&port), s = connected(port), peer = accept(l, NULL, NULL);
	CHECK(peer >= 0);
	pid_t child = fork();
	if (child == 0) {
		close(peer);
		pause();
	}
	close(s);
	char byte;
	CHECK(recv(peer, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	CHECK(send(peer, "x", 1, MSG_NOSIGNAL) == 1);
	int other = connected(port), accepted = accept(l, NULL, NULL);
	CHECK(send(other, "y", 1, 0) == 1 && recv(accepted, &byte, 1, 0) == 1 && byte == 'y');
	CHECK(recv(peer, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	/* The child has not read the message. */
	CHECK(recv(peer, &byte, 1, 0) == -1 && errno == ECONNRESET);
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
	else if (!strcmp(name, "syscalls"))
		syscalls();
	else if (!strcmp(name, "names"))
		names();
	else if (!strcmp(name, "file"))
		file();
	else if (!strcmp(name, "passed"))
		passed();
	else if (!strcmp(name, "replaced"))
		replaced();
	else if (!strcmp(name, "addresses"))
		addresses();
	else if (!strcmp(name, "errors"))
		errors();
	else if (!strcmp(name, "privileged"))
		privileged();
	else if (!strcmp(name, "selection"))
		selection();
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
	else if (!strcmp(name, "deserted"))
		deserted();
	else if (!strcmp(name, "restored"))
		restored();
	else if (!strcmp(name, "remembered") && count > 2)
		remembered(atoi(arguments[2]));
	else if (!strcmp(name, "crammed"))
		crammed();
	else if (!strcmp(name, "unbranched"))
		unbranched();
	else if (!strcmp(name, "exhaust"))
		exhaust();
	else if (!strcmp(name, "hoard"))
		hoard();
	else if (!strcmp(name, "crowd"))
		crowd();
	else if (!strcmp(name, "orphans"))
		orphans();
	else if (!strcmp(name, "aborted"))
		aborted();
	else if (!strcmp(name, "forgotten"))
		forgotten();
	else if (!strcmp(name, "many"))
		many();
	else if (!strcmp(name, "large"))
		large();
	else if (!strcmp(name, "several"))
		several();
	else if (!strcmp(name, "branched"))
		branched();
	else
		return 2;
	return 0;
}
