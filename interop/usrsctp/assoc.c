#include "assoc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "extensions.h"
#include "output.h"

_Noreturn void environment(const char *what, const char *advice)
{
	fprintf(stderr, "usrsctp-peer: %s: %s; %s\n", what, strerror(errno), advice);
	exit(3);
}

static void set(struct socket *socket, int name, const void *value, socklen_t size, const char *what)
{
	if (usrsctp_setsockopt(socket, IPPROTO_SCTP, name, value, size) != 0)
		environment(what, "this release of usrsctp does not take the option");
}

/* usrsctp does not report that its UDP port is in use. */
static void check_port_free(uint16_t port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	int probe = socket(AF_INET, SOCK_DGRAM, 0);
	if (probe < 0 || bind(probe, (struct sockaddr *)&any, sizeof any) != 0)
		environment("the UDP port of the encapsulation", "choose another --encaps-port");
	close(probe);
}

static bool all_v4(const struct addresses *addresses)
{
	for (size_t i = 0; i < addresses->count; i++)
		if (addresses->list[i].any.sa_family != AF_INET)
			return false;
	return true;
}

static void set_timers(struct socket *socket, const struct options *o)
{
	if (o->rto_initial || o->rto_min || o->rto_max) {
		struct sctp_rtoinfo rto = { .srto_initial = o->rto_initial, .srto_max = o->rto_max, .srto_min = o->rto_min };
		set(socket, SCTP_RTOINFO, &rto, sizeof rto, "RTO");
	}
	if (o->assoc_max_retrans) {
		struct sctp_assocparams params = { .sasoc_asocmaxrxt = o->assoc_max_retrans };
		set(socket, SCTP_ASSOCINFO, &params, sizeof params, "Association.Max.Retrans");
	}
	if (o->path_max_retrans || o->heartbeat) {
		struct sctp_paddrparams params = {
			.spp_hbinterval = o->heartbeat, .spp_pathmaxrxt = o->path_max_retrans,
			.spp_flags = o->heartbeat ? SPP_HB_ENABLE : 0,
		};
		set(socket, SCTP_PEER_ADDR_PARAMS, &params, sizeof params, "Path.Max.Retrans and HB.interval");
	}
}

struct socket *assoc_socket(const struct options *o)
{
	static const uint16_t events[] = {
		SCTP_ASSOC_CHANGE, SCTP_PEER_ADDR_CHANGE, SCTP_SHUTDOWN_EVENT, SCTP_PARTIAL_DELIVERY_EVENT,
	};
	if (geteuid() != 0) {
		errno = EPERM;
		environment("usrsctp opens raw sockets", "run as root");
	}
	if (o->udp)
		check_port_free(o->encaps_port);
	usrsctp_init(o->udp ? o->encaps_port : 0, NULL, NULL);
	usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);

	bool v4 = all_v4(&o->local) && all_v4(&o->remote) && o->local.count + o->remote.count > 0;
	struct socket *socket = usrsctp_socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (!socket)
		environment("no SCTP socket", "run as root");
	usrsctp_set_non_blocking(socket, 1);
	uint64_t largest = 0;
	for (size_t i = 0; i < o->size_count; i++)
		largest = o->sizes[i] > largest ? o->sizes[i] : largest;
	/* A whole message must fit, or the stack returns EMSGSIZE. */
	int room = largest > 1 << 20 ? 20 << 20 : 4 << 20;
	if (usrsctp_setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof room) != 0)
		environment("a send buffer for the largest message", "choose smaller --sizes");
	struct sctp_initmsg init = { .sinit_num_ostreams = o->streams, .sinit_max_instreams = 65535 };
	set(socket, SCTP_INITMSG, &init, sizeof init, "numbers of streams");
	int on = 1, nodelay = o->nodelay, off = 0;
	set(socket, SCTP_RECVRCVINFO, &on, sizeof on, "receive information");
	set(socket, SCTP_NODELAY, &nodelay, sizeof nodelay, "Nagle");
	if (!v4)
		usrsctp_setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
		struct sctp_event event = { .se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = events[i], .se_on = 1 };
		set(socket, SCTP_EVENT, &event, sizeof event, "notifications");
	}
	if (o->udp) {
		struct sctp_udpencaps encaps = { .sue_port = htons(o->remote_encaps_port) };
		encaps.sue_address.ss_family = v4 ? AF_INET : AF_INET6;
		set(socket, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps, "encapsulation");
	}
	set_timers(socket, o);
	extensions_apply(socket, o);
	return socket;
}

/* Returns the port that the socket is bound to, in network byte order. */
static uint16_t bound_port_raw(struct socket *socket)
{
	struct sockaddr *addresses = NULL;
	if (usrsctp_getladdrs(socket, 0, &addresses) < 1)
		return 0;
	uint16_t port = ((struct sockaddr_in *)addresses)->sin_port; /* at the same place in sockaddr_in6 */
	usrsctp_freeladdrs(addresses);
	return port;
}

uint16_t bound_port(struct socket *socket)
{
	return ntohs(bound_port_raw(socket));
}

static void bind_local(struct socket *socket, const struct options *o)
{
	uint16_t port = o->listen ? o->port : o->local_port;
	if (o->local.count == 0 && port != 0) {
		struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
		struct sockaddr_in any4 = { .sin_family = AF_INET, .sin_port = htons(port) };
		bool v4 = o->remote.count > 0 && all_v4(&o->remote);
		if (usrsctp_bind(socket, v4 ? (struct sockaddr *)&any4 : (struct sockaddr *)&any, v4 ? sizeof any4 : sizeof any) != 0)
			environment("binding", "is the SCTP port free?");
	}
	for (size_t i = 0; i < o->local.count; i++) {
		struct addresses one = { .list = { o->local.list[i] }, .count = 1 };
		union address packed;
		/* The port of the first address applies to all. */
		pack_addresses(&one, i == 0 ? port : bound_port(socket), (uint8_t *)&packed);
		if (usrsctp_bindx(socket, &packed.any, 1, SCTP_BINDX_ADD_ADDR) != 0)
			environment("binding to --local", "are these addresses of this host, and is the port free?");
	}
}

void assoc_start(struct socket *socket, const struct options *o)
{
	bind_local(socket, o);
	if (o->listen && usrsctp_listen(socket, 1) != 0)
		environment("listening", "is the SCTP port free?");
	emit("ready", "\"stack\":\"usrsctp\",\"port\":%u", bound_port(socket));
	if (o->listen)
		return;
	uint8_t packed[sizeof o->remote];
	pack_addresses(&o->remote, o->port, packed);
	if (usrsctp_connectx(socket, (struct sockaddr *)packed, o->remote.count, NULL) != 0 && errno != EINPROGRESS)
		environment("connecting", "is there a route to the peer?");
}

const char *address_text(const struct sockaddr *address, char *into, size_t size)
{
	if (address->sa_family == AF_INET)
		return inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, into, size);
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
	if (IN6_IS_ADDR_V4MAPPED(v6))
		return inet_ntop(AF_INET, v6->s6_addr + 12, into, size);
	return inet_ntop(AF_INET6, v6, into, size);
}

uint16_t assoc_up(struct socket *socket)
{
	struct sctp_status status = { 0 };
	socklen_t size = sizeof status;
	if (usrsctp_getsockopt(socket, IPPROTO_SCTP, SCTP_STATUS, &status, &size) != 0)
		environment("asking for the state of the association", "this is a fault of this program");
	char list[MOST_ADDRESSES * 4 * (INET6_ADDRSTRLEN + 3)] = "";
	struct sockaddr *addresses = NULL;
	int count = usrsctp_getpaddrs(socket, 0, &addresses);
	const uint8_t *at = (const uint8_t *)addresses;
	for (int i = 0; i < count && i < MOST_ADDRESSES * 4; i++) {
		char text[INET6_ADDRSTRLEN];
		const struct sockaddr *one = (const struct sockaddr *)at;
		size_t used = strlen(list);
		snprintf(list + used, sizeof list - used, "%s\"%s\"", i ? "," : "", address_text(one, text, sizeof text));
		at += one->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	}
	if (count > 0)
		usrsctp_freepaddrs(addresses);
	emit("up", "\"streams_in\":%u,\"streams_out\":%u,\"peer\":[%s]", status.sstat_instrms, status.sstat_outstrms, list);
	return status.sstat_outstrms;
}

struct outcome assoc_broken(int error, bool up, unsigned int cause)
{
	if (!up)
		return (struct outcome){ "refused", "self", cause };
	if (error == ECONNRESET)
		return (struct outcome){ "abort", "peer", cause };
	return (struct outcome){ "lost", "self", cause };
}
