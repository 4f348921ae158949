/*
 * Servers for packet scripts on usrsctp, in UDP: one reads all messages, one none.
 * Usage: usrsctp-servers PORT UNREAD_PORT ENCAPS_PORT
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <usrsctp.h>

enum {
	/* Associations of a listening socket that wait to be accepted. */
	BACKLOG = 128,
	PIECE = 1 << 16,
};

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(3);
}

static void start(void *(*run)(void *), void *argument)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, run, argument))
		fail("usrsctp-servers: a thread");
	pthread_detach(thread);
}

static struct socket *listener(const char *port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	struct socket *socket = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (!socket || usrsctp_bind(socket, (struct sockaddr *)&any, sizeof any) || usrsctp_listen(socket, BACKLOG))
		fail("usrsctp-servers: a listening socket; is the port free, and is this root?");
	return socket;
}

static struct socket *next(struct socket *listening)
{
	struct socket *accepted = usrsctp_accept(listening, NULL, NULL);
	if (!accepted)
		fail("usrsctp-servers: accepting");
	return accepted;
}

/* Reads to the end of an association. */
static void *discard(void *socket)
{
	char data[PIECE];
	struct sctp_rcvinfo info;
	struct sockaddr_storage from;
	ssize_t size;
	do {
		socklen_t from_size = sizeof from, info_size = sizeof info;
		unsigned int type = 0;
		int flags = 0;
		size = usrsctp_recvv(socket, data, sizeof data, (struct sockaddr *)&from, &from_size, &info, &info_size, &type, &flags);
	} while (size > 0);
	usrsctp_close(socket);
	return NULL;
}

/* Accepts associations and reads nothing. */
static void *hoard(void *listening)
{
	for (;;)
		next(listening);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: usrsctp-servers PORT UNREAD_PORT ENCAPS_PORT\n");
		return 2;
	}
	usrsctp_init(atoi(argv[3]), NULL, NULL);
	usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
	struct socket *reading = listener(argv[1]);
	start(hoard, listener(argv[2]));
	printf("{\"event\":\"ready\",\"stack\":\"usrsctp\",\"port\":%s}\n", argv[1]);
	fflush(stdout);
	for (;;)
		start(discard, next(reading));
}
