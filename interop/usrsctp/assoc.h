/* One association on usrsctp's socket API: set-up, options and notifications. */
#ifndef ASSOC_H
#define ASSOC_H

#include <usrsctp.h>

#include "options.h"

/* End of the association; `ended` is NULL before. */
struct outcome {
	const char *ended, *by;
	unsigned int cause;
};

/* Starts the stack and returns a socket with all options set, not bound yet. Exits with status 3 if that fails. */
struct socket *assoc_socket(const struct options *options);

/* Binds, then listens or starts to connect. Exits with status 3 if the host does not allow it. */
void assoc_start(struct socket *socket, const struct options *options);

/* Returns the port that the socket is bound to. */
uint16_t bound_port(struct socket *socket);

/* Prints `up` and returns the negotiated number of outbound streams. */
uint16_t assoc_up(struct socket *socket);

/* Returns the end that an error number of the socket indicates. */
struct outcome assoc_broken(int error, bool up, unsigned int cause);

/* Returns the address of a notification as text. */
const char *address_text(const struct sockaddr *address, char *into, size_t size);

/* Prints one line on standard error and exits with status 3. */
_Noreturn void environment(const char *what, const char *advice);

#endif
