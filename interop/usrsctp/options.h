/* Command line of the peer program, as interop/README.md defines it. */
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

enum { MOST_KEYS = 8, MOST_TYPES = 16, MOST_OPERATIONS = 16 };

/* Extensions that can be offered, as bits. */
enum { X_PARTIAL = 1, X_AUTHENTICATION = 2, X_ADDRESSES = 4, X_RECONFIGURATION = 8, X_INTERLEAVING = 16, X_ECN = 32 };

enum reliability { FULL, TIMED, RETRANSMISSIONS };

enum operation { DO_ADD_ADDRESS, DO_DELETE_ADDRESS, DO_SET_PRIMARY, DO_RESET_OUT, DO_RESET_IN, DO_RESET_ASSOCIATION,
	DO_ADD_STREAMS, DO_USE_KEY };

/* Operation after a number of user bytes. */
struct planned {
	enum operation operation;
	const char *name, *value;
	uint64_t after;
};

/* Zero means "the stack's default" in the last group. */
struct options {
	bool offers, gaps, sha1, round_robin;
	unsigned int offered;
	enum reliability reliability;
	uint32_t reliability_value;
	uint8_t authenticate[MOST_TYPES];
	size_t authenticate_count;
	struct { uint16_t number; const char *secret; } keys[MOST_KEYS];
	size_t key_count;
	struct planned planned[MOST_OPERATIONS];
	size_t planned_count, done;

	bool listen, udp, nodelay;
	struct addresses remote, local;
	uint16_t port, local_port, encaps_port, remote_encaps_port, streams;
	enum mode mode;
	enum end end;
	uint64_t bytes, expect, progress, unordered, seed, rate, hold;
	bool size_range;
	uint64_t sizes[MOST_SIZES];
	size_t size_count;
	unsigned int linger, time_limit;
	unsigned int rto_initial, rto_min, rto_max, heartbeat, path_max_retrans, assoc_max_retrans;
};

/* Exits with status 2 and one line on standard error if the command line is wrong. */
struct options parse_options(int argc, char **argv);

/* Packs addresses with this port consecutively, as bindx and connectx require, and returns the size in bytes. */
size_t pack_addresses(const struct addresses *from, uint16_t port, uint8_t *into);

#endif
