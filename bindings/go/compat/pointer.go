//go:build linux

package compat

import (
	"syscall"
	"unsafe"

	sctp "github.com/carrick-sctp/carrick/bindings/go"
)

// maxOption is the limit of the value of an option in bytes.
const maxOption = 64 << 10

// Setsockopt sets an option of SCTP. The value is at the address optval and has optlen bytes.
//
//go:uintptrescapes
func (c *Conn) Setsockopt(optname, optval, optlen uintptr) (uintptr, uintptr, error) {
	if optlen > maxOption || optval == 0 && optlen > 0 {
		return 0, 0, syscall.EINVAL
	}
	err := c.call(func(conn *sctp.Conn) error {
		return conn.SetOption(levelSCTP, int(optname), append([]byte(nil), memory(optval, optlen)...))
	})
	return 0, 0, err
}

// Getsockopt reads an option of SCTP to the address optval. The size of the buffer is an uint32 at the
// address optlen, which becomes the size of the value.
//
//go:uintptrescapes
func (c *Conn) Getsockopt(optname, optval, optlen uintptr) (uintptr, uintptr, error) {
	if optval == 0 || optlen == 0 {
		return 0, 0, syscall.EFAULT
	}
	size := memory(optlen, 4)
	limit := uintptr(native.Uint32(size))
	if limit > maxOption {
		return 0, 0, syscall.EINVAL
	}
	buffer := memory(optval, limit)
	err := c.call(func(conn *sctp.Conn) error {
		value, err := conn.GetOption(levelSCTP, int(optname), append([]byte(nil), buffer...))
		if err != nil {
			return err
		}
		native.PutUint32(size, uint32(copy(buffer, value)))
		return nil
	})
	return 0, 0, err
}

// memory returns the bytes at an address of the caller's, which is kept in place and alive by the
// directive uintptrescapes of the functions above.
func memory(address, size uintptr) []byte {
	if size == 0 {
		return nil
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), size)
}
