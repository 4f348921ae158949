/* Message stream in both directions on usrsctp with its defaults, on plain IP; as stream.py on sockets.

   usrsctp-stream listen PORT [--size BYTES] [--interval-ms MS] [--mute] --local ADDR,...
   usrsctp-stream connect ADDR PORT [--size BYTES] [--interval-ms MS] [--mute] --local ADDR,...  */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

#define OUTPUT 0.25 /* seconds between two outputs of arrivals */
#define MAX_SIZE 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long size = 100, sent;
static volatile unsigned long numbered;
static volatile sig_atomic_t stopped;
static double interval = 0.02;
static char arrivals[1 << 16];
static size_t filled;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void print_arrivals(void) {
	if (filled)
		printf("{\"event\":\"arrived\",\"t\":%.4f,\"messages\":[%s]}\n", now(), arrivals);
	filled = 0;
	fflush(stdout);
}

static void emit(const char *event, const char *more, ...) {
	va_list list;
	pthread_mutex_lock(&lock);
	print_arrivals();
	printf("{\"event\":\"%s\",\"t\":%.4f", event, now());
	va_start(list, more);
	vprintf(more, list);
	va_end(list);
	puts("}");
	fflush(stdout);
	pthread_mutex_unlock(&lock);
}

static void end(const char *reason) {
	emit("end", ",\"reason\":\"%s\",\"sent\":%lu", reason, sent);
	_exit(0);
}

static void stop(int number) {
	(void)number;
	stopped = 1;
}

static void *print_regularly(void *unused) {
	/* Rounds since the end of sending: in the second one the sender has seen it. */
	int rounds = 0;
	(void)unused;
	for (;;) {
		usleep(OUTPUT * 1e6);
		pthread_mutex_lock(&lock);
		print_arrivals();
		pthread_mutex_unlock(&lock);
		if (stopped && ++rounds == 2)
			emit("stopped", ",\"count\":%lu", numbered);
	}
	return NULL;
}

/* Sends the messages at their times; a blocked send delays those behind it. */
static void *send_all(void *socket) {
	static char message[MAX_SIZE];
	double start = now(), wait;
	for (unsigned long n = 0; !stopped; n++) {
		if ((wait = start + n * interval - now()) > 0)
			usleep(wait * 1e6);
		if (stopped)
			break;
		numbered = n + 1;
		for (int byte = 0; byte < 8; byte++)
			message[byte] = (char)((uint64_t)n >> (56 - 8 * byte));
		if (usrsctp_sendv(socket, message, size, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0) != (ssize_t)size)
			end(strerror(errno));
		sent++;
	}
	return NULL;
}

static const char *state_name(int state) {
	switch (state) {
	case SCTP_ADDR_AVAILABLE:
	case SCTP_ADDR_CONFIRMED:
		return "active";
	case SCTP_ADDR_UNREACHABLE:
		return "inactive";
	default:
		return NULL;
	}
}

static void on_notification(const char *data) {
	const union sctp_notification *notification = (const void *)data;
	if (notification->sn_header.sn_type == SCTP_PEER_ADDR_CHANGE) {
		const struct sctp_paddr_change *change = &notification->sn_paddr_change;
		const char *name = state_name(change->spc_state);
		char address[INET_ADDRSTRLEN];
		inet_ntop(AF_INET, &((const struct sockaddr_in *)&change->spc_aaddr)->sin_addr, address, sizeof address);
		if (name)
			emit("paths", ",\"paths\":{\"%s\":\"%s\"}", address, name);
	} else if (notification->sn_header.sn_type == SCTP_ASSOC_CHANGE) {
		if (notification->sn_assoc_change.sac_state == SCTP_COMM_LOST)
			end("association lost");
		if (notification->sn_assoc_change.sac_state == SCTP_RESTART)
			end("restarted by the peer");
	}
}

static void receive_all(struct socket *socket) {
	static char data[MAX_SIZE];
	for (;;) {
		struct sctp_rcvinfo info;
		socklen_t length = sizeof info;
		unsigned type;
		int flags = 0;
		ssize_t got = usrsctp_recvv(socket, data, sizeof data, NULL, NULL, &info, &length, &type, &flags);
		if (got <= 0)
			end(got ? strerror(errno) : "closed by the peer");
		if (flags & MSG_NOTIFICATION) {
			on_notification(data);
			continue;
		}
		uint64_t number = 0;
		for (int byte = 0; byte < 8; byte++)
			number = number << 8 | (unsigned char)data[byte];
		pthread_mutex_lock(&lock);
		if (filled > sizeof arrivals - 64)
			print_arrivals();
		filled += sprintf(arrivals + filled, "%s[%llu,%.4f]", filled ? "," : "", (unsigned long long)number, now());
		pthread_mutex_unlock(&lock);
	}
}

static struct sockaddr_in address_of(const char *text, int port) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	if (inet_pton(AF_INET, text, &address.sin_addr) != 1) {
		fprintf(stderr, "usrsctp-stream: '%s' is no IPv4 address\n", text);
		exit(2);
	}
	return address;
}

static void fail(const char *what) {
	fprintf(stderr, "usrsctp-stream: %s: %s\n", what, strerror(errno));
	exit(3);
}

static void set_up(struct socket *socket) {
	int on = 1;
	uint16_t types[] = {SCTP_ASSOC_CHANGE, SCTP_PEER_ADDR_CHANGE};
	usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on);
	for (unsigned i = 0; i < 2; i++) {
		struct sctp_event event = {.se_assoc_id = SCTP_ALL_ASSOC, .se_type = types[i], .se_on = 1};
		if (usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event) < 0)
			fail("SCTP_EVENT");
	}
}

int main(int words, char **word) {
	const char *peer = NULL;
	char *local = NULL;
	int at = 2;
	if (words < 3)
		return 2;
	int listens = !strcmp(word[1], "listen");
	if (!listens)
		peer = word[at++];
	int port = at < words ? atoi(word[at++]) : 0;
	int mute = 0;
	for (; at < words; at++) {
		if (!strcmp(word[at], "--mute"))
			mute = 1;
		else if (at + 1 == words)
			return 2;
		else if (!strcmp(word[at], "--size"))
			size = strtoul(word[++at], NULL, 10);
		else if (!strcmp(word[at], "--interval-ms"))
			interval = atof(word[++at]) / 1e3;
		else if (!strcmp(word[at], "--local"))
			local = word[++at];
		else
			return 2;
	}
	if (!port || size < 8 || size > MAX_SIZE || !local)
		return 2;
	signal(SIGUSR1, stop);
	usrsctp_init(0, NULL, NULL);
	struct socket *socket = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (!socket)
		fail("socket");
	set_up(socket);
	for (char *each = strtok(local, ","); each; each = strtok(NULL, ",")) {
		struct sockaddr_in own = address_of(each, listens ? port : 0);
		if (usrsctp_bindx(socket, (struct sockaddr *)&own, 1, SCTP_BINDX_ADD_ADDR) < 0)
			fail("bindx");
	}
	if (listens && usrsctp_listen(socket, 8) < 0)
		fail("listen");
	emit("ready", "");
	if (listens) {
		if (!(socket = usrsctp_accept(socket, NULL, NULL)))
			fail("accept");
		set_up(socket);
	} else {
		struct sockaddr_in to = address_of(peer, port);
		if (usrsctp_connect(socket, (struct sockaddr *)&to, sizeof to) < 0)
			end(strerror(errno));
	}
	emit("up", "");
	pthread_t thread;
	if (!mute)
		pthread_create(&thread, NULL, send_all, socket);
	pthread_create(&thread, NULL, print_regularly, NULL);
	receive_all(socket);
	return 0;
}
