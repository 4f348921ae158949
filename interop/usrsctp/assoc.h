/* One association on usrsctp's socket API: set-up, options and what its notifications mean. */
#ifndef ASSOC_H
#define ASSOC_H

#include <usrsctp.h>

#include "options.h"

/* How the association ended; `ended` is NULL while it has not. */
struct outcome {
	const char *ended, *by;
	unsigned int cause;
};

/* Starts the stack and gives a socket with all options set, not bound yet. Exits with status 3 if that fails. */
struct socket *assoc_socket(const struct options *options);

/* Binds, then listens or starts to connect. Exits with status 3 if the host lacks something. */
void assoc_start(struct socket *socket, const struct options *options);

/* The port that the socket is bound to. */
uint16_t bound_port(struct socket *socket);

/* The negotiated number of outbound streams; prints `up`. */
uint16_t assoc_up(struct socket *socket);

/* How it ended, by the error number of the socket. */
struct outcome assoc_broken(int error, bool up, unsigned int cause);

/* Address of a notification as text. */
const char *address_text(const struct sockaddr *address, char *into, size_t size);

/* One line on standard error, and the end with status 3. */
_Noreturn void environment(const char *what, const char *advice);

#endif
