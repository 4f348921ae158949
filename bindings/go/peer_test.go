//go:build linux

package sctp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/carrick-sctp/carrick/bindings/go/internal/daemontest"
)

// RFC 6951: the peer is a process with a separate endpoint and UDP port.
func TestPeerOutsideOfTheDaemon(t *testing.T) {
	d := daemon(t)
	port, err := daemontest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Getenv(daemontest.ProgramVariable), "cat", "--listen", "--bind", "127.0.0.1",
		"--udp-port", fmt.Sprint(port), "5011")
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Process.Kill(); command.Wait() })

	config := d.config()
	config.Control = func(s *Socket) error { return s.SetEncapsulationPort(0, uint16(port)) }
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var c *Conn
	for {
		// Until it listens, the peer does not answer, or refuses.
		attempt, done := context.WithTimeout(ctx, time.Second)
		c, err = config.DialContext(attempt, "sctp", "127.0.0.1:5011")
		done()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Write([]byte("to the peer\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "to the peer\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := io.WriteString(input, "from the peer\n"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "from the peer\n" {
		t.Fatalf("%q, %v", b[:n], err)
	}
	input.Close()
	if _, err := c.Read(b); err != io.EOF {
		t.Fatal(err)
	}
	if c.RemoteAddr().String() != "127.0.0.1:5011" {
		t.Fatal(c.RemoteAddr())
	}
}
