/* The versions of sctp_connectx, a name that only the assembler can give to several functions. */
#if defined(__aarch64__)
#define JUMP b
#else
#define JUMP jmp
#endif
	.section .text.connectx, "ax", %progbits
	.globl	connectx_0, connectx_1, connectx_2, connectx_3
	.type	connectx_0, %function
	.type	connectx_1, %function
	.type	connectx_2, %function
	.type	connectx_3, %function
connectx_0:
connectx_1:
	JUMP	libsctp_connectx_1
connectx_2:
	JUMP	libsctp_connectx_2
connectx_3:
	JUMP	libsctp_connectx_3
	/* Programs that were linked before there were versions. */
	.symver	connectx_0, sctp_connectx@
	.symver	connectx_1, sctp_connectx@VERS_1
	.symver	connectx_2, sctp_connectx@VERS_2
	.symver	connectx_3, sctp_connectx@@VERS_3
	.section .note.GNU-stack, "", %progbits
