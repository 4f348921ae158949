/* The command line of the peer program, as interop/README.md defines it. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_ADDRESSES = 16, MOST_SIZES = 256, MOST_MESSAGE = 16 << 20 };

enum mode { ECHO, SINK, SOURCE };
enum end { END_SHUTDOWN, END_ABORT, END_WAIT };

/* IPv4 or IPv6; the port is filled in where the address is used. */
union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct addresses {
	union address list[MOST_ADDRESSES];
	size_t count;
};

/* Zero means "the stack's default" in the last group. */
struct options {
	bool listen, udp, nodelay;
	struct addresses remote, local;
	uint16_t port, local_port, encaps_port, remote_encaps_port, streams;
	enum mode mode;
	enum end end;
	uint64_t bytes, expect, progress, unordered, seed, rate;
	bool size_range;
	uint64_t sizes[MOST_SIZES];
	size_t size_count;
	unsigned int linger, time_limit;
	unsigned int rto_initial, rto_min, rto_max, heartbeat, path_max_retrans, assoc_max_retrans;
};

/* Exits with status 2 and one line on standard error if the command line is wrong. */
struct options parse_options(int argc, char **argv);

/* Packs addresses with this port one after the other, as bindx and connectx want them; the size in bytes. */
size_t pack_addresses(const struct addresses *from, uint16_t port, uint8_t *into);

#endif
