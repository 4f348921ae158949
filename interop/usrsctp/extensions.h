/* Extensions: what is offered, what is done with them on the way, what is told of them. */
#ifndef EXTENSIONS_H
#define EXTENSIONS_H

#include <usrsctp.h>

#include "options.h"

/* Sets what is offered, before the socket is bound. Exits with status 3 if the stack refuses. */
void extensions_apply(struct socket *socket, const struct options *options);

/* Does what is due after so many bytes. True if something waits for a better moment. */
bool extensions_do(struct socket *socket, struct options *options, uint64_t bytes);

/* Tells of a notification about an extension. */
void extensions_notification(const union sctp_notification *notification);

#endif
