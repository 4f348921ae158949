// Peer program of github.com/pion/sctp, with the command lines of ../README.md and interop/README.md (interop_*.go).
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

const (
	module = "github.com/pion/sctp"
	// Largest payload of a UDP datagram in a packet of 1500 bytes on IPv4.
	mtu = 1472
	// Size of the receive buffer, and bytes of messages that wait for their acknowledgement.
	receiveBuffer = 4 << 20
	sendLimit     = 1 << 20
	maxMessage    = 256 << 10
	// First byte of messages that the server returns.
	echo = 1
)

// Socket of a server, whose peer is the source of the first packet; a datagram "end" closes it.
type serverConn struct {
	*net.UDPConn
	once   sync.Once
	known  chan struct{}
	remote *net.UDPAddr
}

func (c *serverConn) Read(into []byte) (int, error) {
	n, from, err := c.ReadFromUDP(into)
	if err != nil {
		return n, err
	}
	if string(into[:n]) == "end" {
		return 0, io.EOF
	}
	c.once.Do(func() {
		c.remote = from
		close(c.known)
	})
	return n, nil
}

func (c *serverConn) Write(packet []byte) (int, error) {
	<-c.known
	return c.WriteToUDP(packet, c.remote)
}

func config(conn net.Conn) sctp.Config {
	return sctp.Config{
		NetConn:              conn,
		MaxReceiveBufferSize: receiveBuffer,
		MaxMessageSize:       maxMessage,
		MTU:                  mtu,
		LoggerFactory:        logging.NewDefaultLoggerFactory(),
	}
}

func serve() error {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	// The system may limit the size.
	_ = conn.SetReadBuffer(receiveBuffer)
	fmt.Printf("{\"port\":%d}\n", conn.LocalAddr().(*net.UDPAddr).Port)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	association, err := sctp.Server(config(&serverConn{UDPConn: conn, known: make(chan struct{})}))
	if err != nil {
		return err
	}
	stream, err := association.AcceptStream()
	if err != nil {
		return err
	}
	buffer := make([]byte, maxMessage)
	for {
		n, _, err := stream.ReadSCTP(buffer)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if n > 0 && buffer[0] == echo {
			if _, err := stream.WriteSCTP(buffer[:n], sctp.PayloadTypeWebRTCBinary); err != nil {
				return err
			}
		}
	}
}

func connect(address string) (net.Conn, *sctp.Stream, error) {
	conn, err := net.Dial("udp4", address)
	if err != nil {
		return nil, nil, err
	}
	association, err := sctp.Client(config(conn))
	if err != nil {
		return nil, nil, err
	}
	stream, err := association.OpenStream(0, sctp.PayloadTypeWebRTCBinary)
	return conn, stream, err
}

func send(address string, size int, seconds float64) error {
	conn, stream, err := connect(address)
	if err != nil {
		return err
	}
	low := make(chan struct{}, 1)
	stream.SetBufferedAmountLowThreshold(sendLimit / 2)
	stream.OnBufferedAmountLow(func() {
		select {
		case low <- struct{}{}:
		default:
		}
	})
	message := make([]byte, size)
	bytes := 0
	begin := time.Now()
	for time.Since(begin).Seconds() < seconds {
		if stream.BufferedAmount() >= sendLimit {
			<-low
			continue
		}
		n, err := stream.WriteSCTP(message, sctp.PayloadTypeWebRTCBinary)
		if err != nil {
			return err
		}
		bytes += n
	}
	for stream.BufferedAmount() > 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Printf("{\"bytes\":%d,\"seconds\":%g}\n", bytes, time.Since(begin).Seconds())
	_, err = conn.Write([]byte("end"))
	return err
}

func ping(address string, size, count int) error {
	conn, stream, err := connect(address)
	if err != nil {
		return err
	}
	message := make([]byte, size)
	message[0] = echo
	buffer := make([]byte, maxMessage)
	times := make([]float64, 0, count)
	// The first tenth is not counted.
	for n := 0; n < count+count/10; n++ {
		begin := time.Now()
		if _, err := stream.WriteSCTP(message, sctp.PayloadTypeWebRTCBinary); err != nil {
			return err
		}
		if _, _, err := stream.ReadSCTP(buffer); err != nil {
			return err
		}
		if n >= count/10 {
			times = append(times, float64(time.Since(begin).Nanoseconds())/1e3)
		}
	}
	sort.Float64s(times)
	fmt.Printf("{\"p50_us\":%g,\"p99_us\":%g}\n", times[count/2], times[count*99/100])
	_, err = conn.Write([]byte("end"))
	return err
}

// Returns the version of the module that the program was built with.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return dependency.Version
			}
		}
	}
	return ""
}

func run(words []string) error {
	wrong := errors.New("arguments: see interop/peers/README.md")
	if len(words) == 0 {
		return wrong
	}
	switch {
	case words[0] == "about":
		fmt.Printf("{\"about\":\"Go module %s %s\",\"verbs\":[\"send\",\"ping\"]}\n", module, version())
		return nil
	case words[0] == "serve":
		return serve()
	case len(words) != 4:
		return wrong
	}
	size, err := strconv.Atoi(words[2])
	if err != nil || size < 1 {
		return wrong
	}
	switch words[0] {
	case "send":
		seconds, err := strconv.ParseFloat(words[3], 64)
		if err != nil {
			return err
		}
		return send(words[1], size, seconds)
	case "ping":
		count, err := strconv.Atoi(words[3])
		if err != nil || count < 1 {
			return wrong
		}
		return ping(words[1], size, count)
	}
	return wrong
}

func main() {
	if len(os.Args) > 1 && (os.Args[1] == "listen" || os.Args[1] == "connect") {
		os.Exit(runTest(os.Args[1:]))
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pion:", err)
		os.Exit(1)
	}
}
