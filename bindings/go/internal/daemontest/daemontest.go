//go:build linux

// Package daemontest starts daemons on loopback for tests.
package daemontest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// ProgramVariable is the environment variable with the path of the carrick command.
const ProgramVariable = "CARRICK"

// Limit is the time after which a call that should return counts as blocked.
const Limit = 20 * time.Second

// Daemon is a daemon on loopback.
type Daemon struct {
	// Socket is the path of the control socket.
	Socket string

	directory string
	port      int
	command   *exec.Cmd
	done      sync.Once
}

// Require skips a test where the carrick command is not named.
func Require(t *testing.T) {
	t.Helper()
	if os.Getenv(ProgramVariable) == "" {
		t.Skipf("%s, the path of the carrick command, is not set", ProgramVariable)
	}
}

// Start starts a daemon and waits until it answers.
func Start() (*Daemon, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	directory, err := os.MkdirTemp("", "carrick-go")
	if err != nil {
		return nil, err
	}
	d := &Daemon{Socket: filepath.Join(directory, "socket"), directory: directory, port: port}
	if err := d.launch(); err != nil {
		os.RemoveAll(directory)
		return nil, err
	}
	return d, nil
}

func (d *Daemon) launch() error {
	d.command = exec.Command(os.Getenv(ProgramVariable), "daemon", "--socket", d.Socket,
		"--udp-port", fmt.Sprint(d.port), "--bind", "127.0.0.1", "--bind", "::1")
	output, err := d.command.StderrPipe()
	if err != nil {
		return err
	}
	if err := d.command.Start(); err != nil {
		return err
	}
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			fmt.Fprintln(os.Stderr, "daemon:", lines.Text())
		}
	}()
	for end := time.Now().Add(Limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: d.Socket, Net: "unixpacket"})
		if err == nil {
			conn.Close()
			return nil
		}
	}
	d.end()
	return fmt.Errorf("%s daemon does not answer", os.Getenv(ProgramVariable))
}

func (d *Daemon) end() {
	d.command.Process.Kill()
	d.command.Wait()
}

// Restart ends the daemon with SIGKILL and starts another one with the same control socket.
func (d *Daemon) Restart() error {
	d.end()
	return d.launch()
}

// FreePort returns a UDP port on loopback that is not in use.
func FreePort() (int, error) {
	for {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return 0, err
		}
		port := conn.LocalAddr().(*net.UDPAddr).Port
		conn.Close()
		// The registered port belongs to the host's own daemon.
		if port != 9899 {
			return port, nil
		}
	}
}

// Kill ends the daemon with SIGKILL.
func (d *Daemon) Kill() {
	d.done.Do(func() {
		d.end()
		os.RemoveAll(d.directory)
	})
}
