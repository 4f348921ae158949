/* Extensions: those offered, operations during the transfer, and reports. */
#ifndef EXTENSIONS_H
#define EXTENSIONS_H

#include <usrsctp.h>

#include "options.h"

/* Sets the offered extensions, before the socket is bound. Exits with status 3 if the stack refuses. */
void extensions_apply(struct socket *socket, const struct options *options);

/* Performs the operations that are due after this number of bytes. True if one has to be repeated. */
bool extensions_do(struct socket *socket, struct options *options, uint64_t bytes);

/* Reports a notification about an extension. */
void extensions_notification(const union sctp_notification *notification);

#endif
