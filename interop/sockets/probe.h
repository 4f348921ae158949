/*
 * Cases of the sockets API of SCTP, and their common parts: steps, symbols for values that vary, and set-up.
 *
 * A case is a function that makes its own sockets. It runs in a separate process and prints a line per step:
 * CASE/STEP: CALL = RESULT. A step's name occurs once in its case.
 */
#ifndef PROBE_H
#define PROBE_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/sctp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct probe_case {
	const char *name;
	void (*run)(void);
};

/* Each file of cases has one array, which ends with an empty name. */
extern const struct probe_case naming_cases[], connecting_cases[], message_cases[], ancillary_cases[], many_cases[],
	notification_cases[], option_cases[], sweep_cases[], readiness_cases[], ending_cases[], process_cases[],
	stream_cases[], authentication_cases[], address_cases[], pointer_cases[];

enum {
	SOON = 1000, /* milliseconds in which something that is expected must arrive */
	QUIET = 400, /* milliseconds without anything after which nothing more is expected */
	UNKNOWN_ID = 0x1234567, /* no association has this identifier */
};

/* Steps. The macros print the source of the call; `call` appends SIGPIPE if the process received it. */
void step(const char *name, const char *what, const char *result);
long call(const char *name, const char *what, long result);
int made(const char *name, const char *what, int descriptor);
int set(const char *name, const char *what, int result);
void got(const char *name, const char *what, int result, socklen_t length, const char *fields);
#define CALL(name, expression) call(name, #expression, (errno = 0, (long)(expression)))
#define MADE(name, expression) made(name, #expression, (errno = 0, (int)(expression)))
#define SET(name, fd, option, value) \
	set(name, "set " #option, (errno = 0, setsockopt(fd, SOL_SCTP, option, &(value), sizeof(value))))
#define SET_LENGTH(name, fd, option, value, length) \
	set(name, "set " #option ", " #length " bytes", (errno = 0, setsockopt(fd, SOL_SCTP, option, &(value), length)))
#define SET_INT(name, fd, level, option, number) \
	set(name, "set " #option " " #number, \
	    (errno = 0, setsockopt(fd, level, option, &(int){ number }, sizeof(int))))
#define GET(name, fd, option, value, ...) \
	do { \
		socklen_t length_ = sizeof(value); \
		errno = 0; \
		int result_ = getsockopt(fd, SOL_SCTP, option, &(value), &length_); \
		int error_ = errno; \
		const char *fields_ = result_ == 0 ? text(__VA_ARGS__) : ""; \
		errno = error_; \
		got(name, "get " #option, result_, length_, fields_); \
	} while (0)
#define GET_INT(name, fd, level, option) get_int(name, "get " #option, fd, level, option)
int get_int(const char *name, const char *what, int fd, int level, int option);
/* Ends the case, because its precondition cannot be established. */
void fail(const char *what) __attribute__((noreturn));

/* Texts, in buffers that are used again after 64 calls. */
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *error_name(int error);
const char *port_name(int port);
const char *association_name(int id);
const char *tsn_name(uint32_t tsn);
const char *address_name(const void *address, socklen_t length);
const char *addresses_text(const void *addresses, int number);
const char *flags_text(int flags);
const char *poll_text(int events);
const char *bytes_text(const void *bytes, size_t length);
const char *notification_text(const void *bytes, size_t length);
const char *control_text(struct msghdr *message);
/* "0" or "some": of values such as windows and times. */
const char *some(uint64_t value);

/* Receiving: a step per message or notification. `receive` waits until there is one. */
ssize_t receive_with(const char *name, int fd, size_t size, size_t control, int flags);
ssize_t receive(const char *name, int fd);
/* Receives all available messages; the steps are NAME.1, NAME.2 and so on, and NAME.end for the last result. */
void drain(const char *name, int fd);
/* Reads all available messages without a step. */
void discard(int fd);
bool wait_for(int fd, int events, int milliseconds);
int events_now(int fd);
void poll_step(const char *name, int fd);
void wait_poll_step(const char *name, int fd, int events);
void pause_ms(int milliseconds);

/* Sockets. A function without a name for a step ends the case if it fails. */
struct sockaddr_in v4(const char *address, int port);
struct sockaddr_in6 v6(const char *address, int port);
#define SA(address) ((struct sockaddr *)&(address)), sizeof(address)
#define ADDRESS(address) ((struct sockaddr *)&(address))
int new_socket(int family, int type);
int bound(int type, const char *address);
int listening(int type);
int port_of(int fd);
void nonblocking(int fd);
void subscribe(int fd, int kind, int on);
void subscribe_all(int fd);
/* The identifier of the first association of a socket; 0 if it has none. */
sctp_assoc_t first_id(int fd);

struct pair {
	int client, server, listener; /* the listener of one-to-many pairs is the server */
	sctp_assoc_t client_id, server_id;
	struct sockaddr_in server_address;
};
/*
 * One-to-one sockets with an association between 127.0.0.1 and 127.0.0.1, without Nagle delay. `prepare` sets options of
 * both.
 */
struct pair connected(void (*prepare)(int fd));
/* One-to-many sockets with an association; the first message, "first", is read. */
struct pair associated(void (*prepare)(int fd));
/* Sends data with one control message. */
ssize_t send_control(int fd, const struct sockaddr_in *to, const char *data, int type, const void *value, size_t length);
ssize_t send_info(int fd, const struct sockaddr_in *to, const char *data, struct sctp_sndinfo info);
/* A receive buffer that few messages fill, for connected(). */
void with_small_buffer(int fd);
/* Sends messages of 1000 bytes until the send buffer is full and stays so. Returns their number. */
int fill(int fd);
/* Turns on ancillary data SCTP_SNDRCV, and all notifications off. */
void receive_sndrcv(int fd);
void subscribe_none(int fd);

#endif
