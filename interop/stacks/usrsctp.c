/*
 * Program of live experiments on usrsctp, on plain IP (README.md, "The stacks of live experiments").
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <usrsctp.h>

enum {
	MOST_ADDRESSES = 8,
	NUMBER_SIZE = 8,
	MAX_SIZE = 65536,
	BUFFER = 4 << 20,
	/* The peer may start later: seconds until the sender ends without an association. */
	CONNECT_TIME = 60,
	/* Seconds in which the association shuts down after the receiver's last message. */
	CLOSE_TIME = 10,
};
/* Between two attempts to connect, and between two looks at the state of an association. */
static const double CONNECT_PAUSE = 0.1, STATE_PAUSE = 0.001;

struct addresses {
	struct sockaddr_in list[MOST_ADDRESSES];
	int count;
};

static struct {
	bool sends;
	struct addresses local, peer;
	uint16_t port;
	uint64_t count, size, interval_us, streams;
	/* -1: the default of the stack. */
	int64_t path_max_retrans, pf_max_retrans, rto_min, rto_max, rto_initial;
} options = { .path_max_retrans = -1, .pf_max_retrans = -1, .rto_min = -1, .rto_max = -1, .rto_initial = -1 };

/* The association, for the thread that ends the program. */
static struct socket *association;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "usrsctp: %s: %s\n", what, strerror(errno));
	exit(3);
}

static _Noreturn void usage(const char *what)
{
	fprintf(stderr, "usrsctp: %s; the options are in interop/README.md\n", what);
	exit(2);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static void wait_until(double due)
{
	struct timespec time = { .tv_sec = due, .tv_nsec = (due - (time_t)due) * 1e9 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

/* Command line */

static int64_t number(const char *text, int64_t low, int64_t high)
{
	char *end;
	long long value = strtoll(text, &end, 10);
	char problem[128];

	if (end == text || *end || value < low || value > high) {
		snprintf(problem, sizeof problem, "'%.32s' is not a number from %lld to %lld", text, (long long)low, (long long)high);
		usage(problem);
	}
	return value;
}

static struct addresses addresses(const char *text)
{
	struct addresses parsed = { .count = 0 };
	char *copy = strdup(text); /* the words of the command line stay as they are */

	if (!copy)
		fail("memory for the addresses");
	for (char *one = strtok(copy, ","); one; one = strtok(NULL, ",")) {
		struct sockaddr_in *next = &parsed.list[parsed.count];

		if (parsed.count == MOST_ADDRESSES || inet_pton(AF_INET, one, &next->sin_addr) != 1)
			usage("--local and --peer are at most eight IPv4 addresses with commas between them");
		next->sin_family = AF_INET;
		parsed.count++;
	}
	free(copy);
	return parsed;
}

static void parse(int count, char **words)
{
	enum { LOCAL, PEER, PORT, SIZE, INTERVAL, COUNT, STREAMS, PMR, PFMR, RTO_MIN, RTO_MAX, RTO_INITIAL };
	static const struct option known[] = {
		{ "local", required_argument, NULL, LOCAL }, { "peer", required_argument, NULL, PEER },
		{ "port", required_argument, NULL, PORT }, { "size", required_argument, NULL, SIZE },
		{ "interval-us", required_argument, NULL, INTERVAL }, { "count", required_argument, NULL, COUNT },
		{ "streams", required_argument, NULL, STREAMS }, { "path-max-retrans", required_argument, NULL, PMR },
		{ "pf-max-retrans", required_argument, NULL, PFMR }, { "rto-min", required_argument, NULL, RTO_MIN },
		{ "rto-max", required_argument, NULL, RTO_MAX }, { "rto-initial", required_argument, NULL, RTO_INITIAL },
		{ 0 },
	};
	uint32_t given = 0;

	if (count == 2 && !strcmp(words[1], "--version")) {
		printf("usrsctp %s\n", VERSION);
		exit(0);
	}
	if (count < 2 || (strcmp(words[1], "send") && strcmp(words[1], "receive")))
		usage("the first word is send or receive");
	options.sends = !strcmp(words[1], "send");
	for (int option; (option = getopt_long(count - 1, words + 1, "", known, NULL)) != -1;) {
		switch (option) {
		case LOCAL: options.local = addresses(optarg); break;
		case PEER: options.peer = addresses(optarg); break;
		case PORT: options.port = number(optarg, 1, 65535); break;
		case SIZE: options.size = number(optarg, NUMBER_SIZE, MAX_SIZE); break;
		case INTERVAL: options.interval_us = number(optarg, 0, UINT32_MAX); break;
		case COUNT: options.count = number(optarg, 1, UINT32_MAX); break;
		case STREAMS: options.streams = number(optarg, 1, 65534); break;
		case PMR: options.path_max_retrans = number(optarg, 0, UINT16_MAX); break;
		case PFMR: options.pf_max_retrans = number(optarg, 0, UINT16_MAX); break;
		case RTO_MIN: options.rto_min = number(optarg, 1, INT32_MAX); break;
		case RTO_MAX: options.rto_max = number(optarg, 1, INT32_MAX); break;
		case RTO_INITIAL: options.rto_initial = number(optarg, 1, INT32_MAX); break;
		default: usage("an option is unknown or has no value");
		}
		given |= 1u << option;
	}
	uint32_t required = 1u << LOCAL | 1u << PORT | 1u << COUNT;
	if (options.sends)
		required |= 1u << PEER | 1u << SIZE | 1u << INTERVAL | 1u << STREAMS;
	if ((given & required) != required)
		usage(options.sends ? "--local, --peer, --port, --size, --interval-us, --count and --streams are needed"
				    : "--local, --port and --count are needed");
}

/* Sockets */

static void set(struct socket *socket, int name, const void *value, socklen_t size, const char *what)
{
	if (usrsctp_setsockopt(socket, IPPROTO_SCTP, name, value, size))
		fail(what);
}

static uint32_t or_default(int64_t value)
{
	return value < 0 ? 0 : value;
}

/* Defaults of all endpoints: as socket options, 0 would leave them unchanged. */
static void set_thresholds(void)
{
	if (options.path_max_retrans >= 0 && usrsctp_sysctl_set_sctp_path_rtx_max_default(options.path_max_retrans))
		fail("--path-max-retrans");
	if (options.pf_max_retrans >= 0 && usrsctp_sysctl_set_sctp_path_pf_threshold(options.pf_max_retrans))
		fail("--pf-max-retrans");
}

static struct socket *open_socket(uint16_t port)
{
	struct socket *socket = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	struct sctp_initmsg init = { .sinit_num_ostreams = options.sends ? options.streams + 1 : 1, .sinit_max_instreams = UINT16_MAX };
	struct sctp_rtoinfo rto = {
		.srto_initial = or_default(options.rto_initial),
		.srto_max = or_default(options.rto_max),
		.srto_min = or_default(options.rto_min),
	};
	int on = 1, buffer = BUFFER;

	if (!socket || usrsctp_setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer))
		fail("a socket");
	set(socket, SCTP_INITMSG, &init, sizeof init, "numbers of streams");
	set(socket, SCTP_NODELAY, &on, sizeof on, "SCTP_NODELAY");
	set(socket, SCTP_RTOINFO, &rto, sizeof rto, "--rto-min, --rto-max and --rto-initial");
	for (int i = 0; i < options.local.count; i++) {
		struct sockaddr_in address = options.local.list[i];
		struct sockaddr *bound;

		address.sin_port = port;
		if (usrsctp_bindx(socket, (struct sockaddr *)&address, 1, SCTP_BINDX_ADD_ADDR))
			fail("binding to --local");
		/* The port of the first address applies to all. */
		if (usrsctp_getladdrs(socket, 0, &bound) < 1)
			fail("the port of the socket");
		port = ((struct sockaddr_in *)bound)->sin_port;
		usrsctp_freeladdrs(bound);
	}
	return socket;
}

/* Returns the state of the association, or SCTP_CLOSED if there is none. */
static int state_of(struct socket *socket)
{
	struct sctp_status status = { 0 };
	socklen_t size = sizeof status;

	return usrsctp_getsockopt(socket, IPPROTO_SCTP, SCTP_STATUS, &status, &size) ? SCTP_CLOSED : status.sstat_state;
}

/* Makes the first address of --peer the primary one. */
static void set_primary(struct socket *socket)
{
	struct sctp_setprim primary = { 0 };

	memcpy(&primary.ssp_addr, &options.peer.list[0], sizeof options.peer.list[0]);
	set(socket, SCTP_PRIMARY_ADDR, &primary, sizeof primary, "the primary path");
}

/* Returns a socket with an association, once the peer answers. */
static struct socket *connected(void)
{
	double deadline = now() + CONNECT_TIME;

	for (int i = 0; i < options.peer.count; i++)
		options.peer.list[i].sin_port = htons(options.port);
	for (; now() < deadline; wait_until(now() + CONNECT_PAUSE)) {
		struct socket *socket = open_socket(0);

		if (usrsctp_connectx(socket, (struct sockaddr *)options.peer.list, options.peer.count, NULL) && errno != EINPROGRESS)
			fail("connecting");
		for (int state; (state = state_of(socket)) != SCTP_CLOSED; wait_until(now() + STATE_PAUSE))
			if (state == SCTP_ESTABLISHED) {
				set_primary(socket);
				return socket;
			}
		usrsctp_close(socket);
		fprintf(stderr, "usrsctp: no association yet\n");
	}
	errno = ETIMEDOUT;
	fail("connecting");
}

static const char *reason_of(int error)
{
	switch (error) {
	case ECONNRESET:
	case EPIPE:
		return "abort";
	case ECONNABORTED: /* by this side, after the last retransmission */
	case ETIMEDOUT:
		return "lost";
	default:
		return strerror(error);
	}
}

/* Reads a part of a message. Returns its size, 0 after the peer's SHUTDOWN, less after another end. */
static ssize_t read_part(struct socket *socket, void *into, size_t size, int *flags)
{
	struct sctp_rcvinfo info;
	socklen_t info_size = sizeof info, from_size = 0;
	unsigned int type;

	return usrsctp_recvv(socket, into, size, NULL, &from_size, &info, &info_size, &type, flags);
}

/* Returns the reason of the end of the association, once it has ended. */
static const char *wait_for_end(struct socket *socket)
{
	char ignored[NUMBER_SIZE];
	ssize_t size;
	int flags = 0;

	while ((size = read_part(socket, ignored, sizeof ignored, &flags)) > 0)
		;
	return size ? reason_of(errno) : "shutdown";
}

/* Returns the reason of the end of an association in which a call to send has failed. Only one call gets the error of the
   association, this one or the next. */
static const char *end_of_sending(struct socket *socket, int error)
{
	const char *reason = wait_for_end(socket);

	if (error == ECONNABORTED || error == ECONNRESET || error == ETIMEDOUT)
		return reason_of(error);
	return strcmp(reason, "shutdown") ? reason : "shutdown by the receiver";
}

/* Ends the association when all messages are acknowledged. */
static const char *shut_down(struct socket *socket)
{
	usrsctp_shutdown(socket, SHUT_WR);
	return wait_for_end(socket);
}

/* Programs */

static const char *send_messages(void)
{
	char *message = calloc(1, options.size);
	double start;

	if (!message)
		fail("memory for a message");
	association = connected();
	fprintf(stderr, "usrsctp: the association is up\n");
	start = now();
	for (uint64_t i = 0; i < options.count; i++) {
		struct sctp_sndinfo info = { .snd_sid = 1 + i % options.streams };
		uint64_t number = htobe64(i);

		memcpy(message, &number, NUMBER_SIZE);
		wait_until(start + i * options.interval_us / 1e6);
		if (usrsctp_sendv(association, message, options.size, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0) < 0)
			return end_of_sending(association, errno);
	}
	return shut_down(association);
}

/* Prints the messages. Returns the reason of the end of the association, or NULL after the last message. */
static const char *receive_messages(void)
{
	static char message[MAX_SIZE];
	struct socket *listening = open_socket(htons(options.port));
	size_t have = 0;

	if (usrsctp_listen(listening, 1))
		fail("listening");
	fprintf(stderr, "usrsctp: listening\n");
	association = usrsctp_accept(listening, NULL, NULL);
	if (!association)
		fail("accepting");
	for (uint64_t received = 0; received < options.count;) {
		int flags = 0;
		ssize_t size = read_part(association, message + have, sizeof message - have, &flags);
		uint64_t number;

		if (size <= 0)
			return size ? reason_of(errno) : "shutdown";
		/* The number is at the begin of the message; the last parts may overwrite one another. */
		have = have + size < NUMBER_SIZE ? have + size : NUMBER_SIZE;
		if (!(flags & MSG_EOR))
			continue;
		memcpy(&number, message, NUMBER_SIZE);
		printf("{\"n\": %llu, \"t\": %.6f}\n", (unsigned long long)be64toh(number), now());
		fflush(stdout);
		received++;
		have = 0;
	}
	/* The last message has arrived, but may not have been acknowledged. */
	alarm(CLOSE_TIME);
	shut_down(association);
	return NULL;
}

/* Aborts the association and ends the program at a signal. */
static void *end_at_signal(void *signals)
{
	struct sctp_sndinfo abort = { .snd_flags = SCTP_ABORT };
	int signal;

	sigwait(signals, &signal);
	/* The main thread, for which the association ends, waits here instead of reporting it. */
	flockfile(stdout);
	flockfile(stderr);
	if (association)
		usrsctp_sendv(association, "", 0, NULL, 0, &abort, sizeof abort, SCTP_SENDV_SNDINFO, 0);
	_exit(0);
	return NULL;
}

int main(int count, char **words)
{
	static sigset_t signals;
	pthread_t thread;
	const char *reason;

	parse(count, words);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGALRM);
	/* Threads of the stack have this mask as well. */
	if (pthread_sigmask(SIG_BLOCK, &signals, NULL) || pthread_create(&thread, NULL, end_at_signal, &signals))
		fail("a thread");
	if (geteuid()) {
		errno = EPERM;
		fail("raw sockets need root");
	}
	usrsctp_init(0, NULL, NULL);
	set_thresholds();
	reason = options.sends ? send_messages() : receive_messages();
	if (options.sends)
		fprintf(stderr, "usrsctp: the association has ended: %s\n", reason);
	else if (reason)
		printf("{\"end\": \"%s\"}\n", reason);
	fflush(stdout);
	/* Threads of the stack still run. */
	_exit(options.sends && strcmp(reason, "shutdown") ? 1 : 0);
}
