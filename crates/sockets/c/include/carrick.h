/*
 * SCTP sockets of the Carrick daemon for C programs.
 *
 * The functions are the socket functions of libc and those of RFC 6458, section 9, with the prefix carrick_. They take
 * the same arguments and return the same results and errors (errno). Structs and constants are those of <linux/sctp.h>.
 *
 * A descriptor is a file descriptor of the process: poll, epoll, dup, fcntl, close and passing to other processes are
 * those of libc. The other calls of libc do not know SCTP: what sends and receives, and the options, need the functions
 * of this header. On a descriptor that is not Carrick's they are those of libc.
 *
 * carrick_socket connects to the daemon at $CARRICK_DAEMON, $XDG_RUNTIME_DIR/carrick/socket or /run/carrick/socket, in
 * this order. Without a daemon it fails with EPROTONOSUPPORT, or ESOCKTNOSUPPORT for SOCK_SEQPACKET.
 *
 * A program that includes <netinet/sctp.h> of lksctp-tools as well includes it first.
 */
#ifndef CARRICK_H
#define CARRICK_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <linux/sctp.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mmsghdr;
struct timespec;

/* Level of the options, as IPPROTO_SCTP. */
#ifndef SOL_SCTP
#define SOL_SCTP 132
#endif

/* Unless <netinet/sctp.h> has defined them. */
#ifndef __linux_sctp_h__
/* Types of the attributes of carrick_sctp_sendv (RFC 6458, section 9.12). */
enum { SCTP_SENDV_NOINFO, SCTP_SENDV_SNDINFO, SCTP_SENDV_PRINFO, SCTP_SENDV_AUTHINFO, SCTP_SENDV_SPA };

/* sendv_flags: which attributes are valid. */
#define SCTP_SEND_SNDINFO_VALID 0x1
#define SCTP_SEND_PRINFO_VALID 0x2
#define SCTP_SEND_AUTHINFO_VALID 0x4

struct sctp_sendv_spa {
	uint32_t sendv_flags;
	struct sctp_sndinfo sendv_sndinfo;
	struct sctp_prinfo sendv_prinfo;
	struct sctp_authinfo sendv_authinfo;
};

/* Types of the attributes of carrick_sctp_recvv (RFC 6458, section 9.13). */
enum { SCTP_RECVV_NOINFO, SCTP_RECVV_RCVINFO, SCTP_RECVV_NXTINFO, SCTP_RECVV_RN };

struct sctp_recvv_rn {
	struct sctp_rcvinfo recvv_rcvinfo;
	struct sctp_nxtinfo recvv_nxtinfo;
};
#endif

/* The functions of libc. SOCK_NONBLOCK and SOCK_CLOEXEC are valid in types. */
int carrick_socket(int domain, int type, int protocol);
int carrick_bind(int fd, const struct sockaddr *address, socklen_t length);
int carrick_listen(int fd, int backlog);
int carrick_accept(int fd, struct sockaddr *address, socklen_t *length);
int carrick_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int carrick_connect(int fd, const struct sockaddr *address, socklen_t length);
int carrick_shutdown(int fd, int how);
int carrick_close(int fd);
/* FIONREAD returns the size of the next message, or the unread rest of it. */
int carrick_ioctl(int fd, unsigned long request, void *argument);
int carrick_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int carrick_getpeername(int fd, struct sockaddr *address, socklen_t *length);
int carrick_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
int carrick_setsockopt(int fd, int level, int name, const void *value, socklen_t length);

/* One message, or a part of one without MSG_EOR in msg_flags. */
ssize_t carrick_read(int fd, void *buffer, size_t length);
ssize_t carrick_readv(int fd, const struct iovec *parts, int count);
ssize_t carrick_recv(int fd, void *buffer, size_t length, int flags);
ssize_t carrick_recvfrom(int fd, void *buffer, size_t length, int flags, struct sockaddr *from, socklen_t *from_length);
ssize_t carrick_recvmsg(int fd, struct msghdr *message, int flags);
int carrick_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout);
ssize_t carrick_write(int fd, const void *buffer, size_t length);
ssize_t carrick_writev(int fd, const struct iovec *parts, int count);
ssize_t carrick_send(int fd, const void *buffer, size_t length, int flags);
ssize_t carrick_sendto(int fd, const void *buffer, size_t length, int flags, const struct sockaddr *to, socklen_t to_length);
ssize_t carrick_sendmsg(int fd, const struct msghdr *message, int flags);
int carrick_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);

/* RFC 6458, section 9. Lists of addresses are packed: struct sockaddr_in and struct sockaddr_in6 without gaps. */
int carrick_sctp_bindx(int fd, struct sockaddr *addresses, int count, int flags);
int carrick_sctp_connectx(int fd, struct sockaddr *addresses, int count, sctp_assoc_t *association);
int carrick_sctp_peeloff(int fd, sctp_assoc_t association);
/* With SOCK_NONBLOCK and SOCK_CLOEXEC. */
int carrick_sctp_peeloff_flags(int fd, sctp_assoc_t association, unsigned int flags);
int carrick_sctp_opt_info(int fd, sctp_assoc_t association, int option, void *value, socklen_t *length);
/* The memory of the addresses is released by carrick_sctp_freepaddrs and carrick_sctp_freeladdrs, which return 0. */
int carrick_sctp_getpaddrs(int fd, sctp_assoc_t association, struct sockaddr **addresses);
int carrick_sctp_freepaddrs(struct sockaddr *addresses);
int carrick_sctp_getladdrs(int fd, sctp_assoc_t association, struct sockaddr **addresses);
int carrick_sctp_freeladdrs(struct sockaddr *addresses);
/* Size of an address in bytes; 0 for another family than IPv4 and IPv6. */
int carrick_sctp_getaddrlen(sa_family_t family);
int carrick_sctp_sendv(int fd, const struct iovec *parts, int count, struct sockaddr *addresses, int address_count, void *info,
		       socklen_t info_length, unsigned int info_type, int flags);
int carrick_sctp_recvv(int fd, const struct iovec *parts, int count, struct sockaddr *from, socklen_t *from_length, void *info,
		       socklen_t *info_length, unsigned int *info_type, int *flags);
/* Deprecated by RFC 6458. */
int carrick_sctp_sendmsg(int fd, const void *message, size_t length, struct sockaddr *to, socklen_t to_length, uint32_t ppid,
			 uint32_t flags, uint16_t stream, uint32_t time_to_live, uint32_t context);
int carrick_sctp_send(int fd, const void *message, size_t length, const struct sctp_sndrcvinfo *info, int flags);
int carrick_sctp_recvmsg(int fd, void *buffer, size_t length, struct sockaddr *from, socklen_t *from_length,
			 struct sctp_sndrcvinfo *info, int *flags);

#ifdef __cplusplus
}
#endif

#endif
