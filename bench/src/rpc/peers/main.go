// gRPC by Go, both ends: what bench/src/rpc.rs starts. The same words as the other peers have.
//
//	serve                          says where it listens, and serves until it is ended
//	call ADDRESS WARM_UP CALLS BYTES  says "warm", then the median, the 99th percentile and the
//	                               longest of the calls, in nanoseconds
//	stream ADDRESS MS BYTES        says "warm", then how many bytes a client stream took to its
//	                               answer, and how long, in nanoseconds
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"costof.invalid/peer/echo"
)

// How long the bench has, behind "warm", to look what both ends have used so far.
const pause = 50 * time.Millisecond

func main() {
	if err := play(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func play(words []string) error {
	switch {
	case len(words) == 1 && words[0] == "version":
		fmt.Println("gRPC Go", grpc.Version, runtime.Version())
		return nil
	case len(words) == 1 && words[0] == "serve":
		return serve()
	case len(words) == 5 && words[0] == "call":
		numbers, err := numbers(words[2:])
		if err != nil {
			return err
		}
		return ask(words[1], numbers[0], numbers[1], numbers[2])
	case len(words) == 4 && words[0] == "stream":
		numbers, err := numbers(words[2:])
		if err != nil {
			return err
		}
		return stream(words[1], time.Duration(numbers[0])*time.Millisecond, numbers[1])
	}
	return errors.New("it takes serve, call or stream")
}

func numbers(words []string) ([]int, error) {
	all := make([]int, len(words))
	for i, word := range words {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		all[i] = number
	}
	return all, nil
}

type service struct {
	echo.UnimplementedEchoServer
}

func (service) EchoString(_ context.Context, message *echo.StringMessage) (*echo.StringMessage, error) {
	return message, nil
}

func (service) Upload(chunks grpc.ClientStreamingServer[echo.Chunk, echo.Summary]) error {
	var summary echo.Summary
	for {
		chunk, err := chunks.Recv()
		if err == io.EOF {
			return chunks.SendAndClose(&summary)
		}
		if err != nil {
			return err
		}
		summary.Chunks++
		summary.Bytes += uint64(len(chunk.Data))
	}
}

// A message of 64 KiB is one write, as ours is; frames of more than 16 KiB this library does not send.
const bufferBytes = 128 << 10

func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(8<<20),
		grpc.ReadBufferSize(bufferBytes), grpc.WriteBufferSize(bufferBytes))
	echo.RegisterEchoServer(server, service{})
	fmt.Println(listener.Addr())
	return server.Serve(listener)
}

func connect(address string) (echo.EchoClient, error) {
	// passthrough: it is an address, and nobody is to be asked what it means.
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithReadBufferSize(bufferBytes), grpc.WithWriteBufferSize(bufferBytes))
	if err != nil {
		return nil, err
	}
	return echo.NewEchoClient(connection), nil
}

func ask(address string, warmUp, calls, size int) error {
	client, err := connect(address)
	if err != nil {
		return err
	}
	message := &echo.StringMessage{Value: letters(size)}
	call := func() (time.Duration, error) {
		began := time.Now()
		answer, err := client.EchoString(context.Background(), message)
		if err != nil {
			return 0, err
		}
		if answer.Value != message.Value {
			return 0, errors.New("the answer is another")
		}
		return time.Since(began), nil
	}
	for range warmUp {
		if _, err := call(); err != nil {
			return err
		}
	}
	warm()
	took := make([]time.Duration, calls)
	for i := range took {
		if took[i], err = call(); err != nil {
			return err
		}
	}
	slices.Sort(took)
	at := func(p float64) int64 {
		return took[int(float64(len(took)-1)*p+0.5)].Nanoseconds()
	}
	fmt.Println(at(0.5), at(0.99), at(1))
	return untilEnded()
}

func stream(address string, lasts time.Duration, size int) error {
	client, err := connect(address)
	if err != nil {
		return err
	}
	chunk := &echo.Chunk{Data: bytes.Repeat([]byte{7}, size)}
	upload := func() (uint64, time.Duration, error) {
		began, sent := time.Now(), uint64(0)
		chunks, err := client.Upload(context.Background())
		if err != nil {
			return 0, 0, err
		}
		for time.Since(began) < lasts {
			if err := chunks.Send(chunk); err != nil {
				return 0, 0, err
			}
			sent++
		}
		summary, err := chunks.CloseAndRecv()
		if err != nil {
			return 0, 0, err
		}
		took := time.Since(began)
		if summary.Chunks != sent || summary.Bytes != sent*uint64(size) {
			return 0, 0, errors.New("another sum arrived than was sent")
		}
		return summary.Bytes, took, nil
	}
	if _, _, err := upload(); err != nil {
		return err
	}
	warm()
	sent, took, err := upload()
	if err != nil {
		return err
	}
	fmt.Println(sent, took.Nanoseconds())
	return untilEnded()
}

func letters(size int) string {
	text := make([]byte, size)
	for i := range text {
		text[i] = 'a' + byte(i%26)
	}
	return string(text)
}

func warm() {
	fmt.Println("warm")
	time.Sleep(pause)
}

// What it has used is looked at while it is still there.
func untilEnded() error {
	for {
		time.Sleep(time.Hour)
	}
}
