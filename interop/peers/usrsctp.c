/* Peer program of usrsctp, with the command line of README.md: packets in UDP, one call each. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
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
	PORT = 5000,
	/* Largest payload of a UDP datagram in a packet of 1500 bytes on IPv4. */
	MTU = 1472,
	BUFFER = 4 << 20,
	MAX_MESSAGE = 256 << 10,
	/* First byte of messages that the server returns. */
	ECHO_MESSAGE = 1,
};

/* Datagram that ends the server. */
static const char END[] = "end";

static int udp;

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int output(void *address, void *packet, size_t size, uint8_t tos, uint8_t set_df)
{
	(void)address, (void)tos, (void)set_df;
	return send(udp, packet, size, 0) < 0 ? -1 : 0;
}

static void *receive(void *unused)
{
	static char packet[1 << 16];

	for (;;) {
		ssize_t size = recv(udp, packet, sizeof packet, 0);
		if (size == sizeof END && !memcmp(packet, END, sizeof END))
			exit(0);
		if (size > 0)
			usrsctp_conninput(&udp, packet, size, 0);
	}
	return unused;
}

static void *end_with_input(void *unused)
{
	char input[64];

	while (read(STDIN_FILENO, input, sizeof input) > 0)
		;
	exit(1);
	return unused;
}

static void start(void *(*run)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL))
		fail("pthread_create");
}

static struct sockaddr_in open_udp(void)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof own;
	int buffer = BUFFER;

	udp = socket(AF_INET, SOCK_DGRAM, 0);
	if (udp < 0 || bind(udp, (struct sockaddr *)&own, length) || getsockname(udp, (struct sockaddr *)&own, &length))
		fail("socket");
	/* The system may limit the size. */
	setsockopt(udp, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
	return own;
}

static struct sockaddr_conn name(void)
{
	struct sockaddr_conn name = {.sconn_family = AF_CONN, .sconn_port = htons(PORT), .sconn_addr = &udp};

	return name;
}

static struct socket *open_sctp(void)
{
	struct sockaddr_conn own = name();
	struct socket *socket;
	int one = 1, buffer = BUFFER;

	usrsctp_init(0, output, NULL);
	usrsctp_sysctl_set_sctp_ecn_enable(0);
	usrsctp_register_address(&udp);
	socket = usrsctp_socket(AF_CONN, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (!socket || usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_NODELAY, &one, sizeof one) ||
	    usrsctp_setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) ||
	    usrsctp_setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer) ||
	    usrsctp_bind(socket, (struct sockaddr *)&own, sizeof own))
		fail("usrsctp");
	return socket;
}

static void limit_mtu(struct socket *socket)
{
	struct sctp_paddrparams parameters = {.spp_pathmtu = MTU, .spp_flags = SPP_PMTUD_DISABLE};
	struct sockaddr_conn peer = name();

	memcpy(&parameters.spp_address, &peer, sizeof peer);
	if (usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &parameters, sizeof parameters))
		fail("SCTP_PEER_ADDR_PARAMS");
}

static void serve(void)
{
	struct sockaddr_in own = open_udp(), peer;
	socklen_t length = sizeof peer;
	struct socket *listening, *socket;
	static char message[MAX_MESSAGE];
	char first;

	printf("{\"port\":%d}\n", ntohs(own.sin_port));
	fflush(stdout);
	start(end_with_input);
	/* The peer is the source of the first packet. */
	if (recvfrom(udp, &first, 1, MSG_PEEK, (struct sockaddr *)&peer, &length) < 0 ||
	    connect(udp, (struct sockaddr *)&peer, length))
		fail("recvfrom");
	listening = open_sctp();
	if (usrsctp_listen(listening, 1))
		fail("usrsctp_listen");
	start(receive);
	socket = usrsctp_accept(listening, NULL, NULL);
	if (!socket)
		fail("usrsctp_accept");
	limit_mtu(socket);
	for (;;) {
		struct sctp_rcvinfo info;
		socklen_t info_length = sizeof info, from_length = 0;
		unsigned int type;
		int flags = 0;
		ssize_t size = usrsctp_recvv(socket, message, sizeof message, NULL, &from_length, &info, &info_length, &type, &flags);

		if (size <= 0)
			fail("usrsctp_recvv");
		if (message[0] == ECHO_MESSAGE && usrsctp_sendv(socket, message, size, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0) < 0)
			fail("usrsctp_sendv");
	}
}

static struct socket *connect_to(const char *address)
{
	struct sockaddr_in peer = {.sin_family = AF_INET};
	struct sockaddr_conn to = name();
	struct socket *socket;
	char host[INET_ADDRSTRLEN];
	unsigned short port;

	if (sscanf(address, "%15[0-9.]:%hu", host, &port) != 2 || inet_pton(AF_INET, host, &peer.sin_addr) != 1) {
		fprintf(stderr, "usrsctp: %s is no address with a port\n", address);
		exit(2);
	}
	peer.sin_port = htons(port);
	open_udp();
	if (connect(udp, (struct sockaddr *)&peer, sizeof peer))
		fail("connect");
	socket = open_sctp();
	start(receive);
	if (usrsctp_connect(socket, (struct sockaddr *)&to, sizeof to))
		fail("usrsctp_connect");
	limit_mtu(socket);
	return socket;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

/* Waits until the peer has acknowledged everything. */
static void drain(struct socket *socket)
{
	for (;;) {
		struct sctp_status status = {0};
		socklen_t length = sizeof status;

		if (usrsctp_getsockopt(socket, IPPROTO_SCTP, SCTP_STATUS, &status, &length))
			fail("SCTP_STATUS");
		if (!status.sstat_unackdata && !status.sstat_penddata)
			return;
		usleep(1000);
	}
}

static void send_messages(const char *address, size_t size, double seconds)
{
	struct socket *socket = connect_to(address);
	char *message = calloc(1, size);
	double begin = now();
	uint64_t bytes = 0;

	while (now() - begin < seconds) {
		if (usrsctp_sendv(socket, message, size, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0) < 0)
			fail("usrsctp_sendv");
		bytes += size;
	}
	drain(socket);
	printf("{\"bytes\":%llu,\"seconds\":%f}\n", (unsigned long long)bytes, now() - begin);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void ping(const char *address, size_t size, size_t count)
{
	struct socket *socket = connect_to(address);
	char *message = calloc(1, size);
	double *times = calloc(count, sizeof *times);
	static char answer[MAX_MESSAGE];

	message[0] = ECHO_MESSAGE;
	/* The first tenth is not counted. */
	for (size_t n = 0; n < count + count / 10; n++) {
		struct sctp_rcvinfo info;
		socklen_t info_length = sizeof info, from_length = 0;
		unsigned int type;
		int flags = 0;
		double begin = now();

		if (usrsctp_sendv(socket, message, size, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0) < 0)
			fail("usrsctp_sendv");
		if (usrsctp_recvv(socket, answer, sizeof answer, NULL, &from_length, &info, &info_length, &type, &flags) <= 0)
			fail("usrsctp_recvv");
		if (n >= count / 10)
			times[n - count / 10] = (now() - begin) * 1e6;
	}
	qsort(times, count, sizeof *times, by_value);
	printf("{\"p50_us\":%f,\"p99_us\":%f}\n", times[count / 2], times[count * 99 / 100]);
}

int main(int count, char **words)
{
	if (count == 2 && !strcmp(words[1], "about")) {
		printf("{\"about\":\"Debian package libusrsctp-dev " VERSION "\",\"verbs\":[\"send\",\"ping\"]}\n");
		return 0;
	}
	if (count == 2 && !strcmp(words[1], "serve")) {
		serve();
	} else if (count == 5 && !strcmp(words[1], "send") && atol(words[3]) > 0) {
		send_messages(words[2], atol(words[3]), atof(words[4]));
	} else if (count == 5 && !strcmp(words[1], "ping") && atol(words[3]) > 0 && atol(words[4]) > 0) {
		ping(words[2], atol(words[3]), atol(words[4]));
	} else {
		fprintf(stderr, "usrsctp: arguments: see interop/peers/README.md\n");
		return 2;
	}
	fflush(stdout);
	send(udp, END, sizeof END, 0);
	/* Threads of the stack still run. */
	_exit(0);
}
