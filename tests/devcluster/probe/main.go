// Command probe is what the tests run in pods: it serves its name, asks another, looks a name up, keeps a file.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	var err error
	switch os.Args[1] {
	case "serve":
		err = serve(os.Args[2:])
	case "get":
		err = get(os.Args[2])
	case "lookup":
		err = lookup(os.Args[2])
	case "write":
		err = os.WriteFile(os.Args[2], []byte(os.Args[3]), 0o644)
	case "read":
		var content []byte
		content, err = os.ReadFile(os.Args[2])
		fmt.Print(string(content))
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(addresses []string) error {
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	failed := make(chan error)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, hostname) })
	for _, address := range addresses {
		go func() { failed <- http.ListenAndServe(address, handler) }()
	}
	select {
	case <-ended:
		return nil
	case err := <-failed:
		return err
	}
}

func get(url string) error {
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

func lookup(name string) error {
	found, err := net.LookupHost(name)
	fmt.Println(strings.Join(found, " "))
	return err
}
