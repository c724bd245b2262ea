// A franz-go client. As a producer it writes records one after another for some seconds, and says on its last line, as
// JSON, what became of them and what throttle times it was told. With -shows it makes one Produce or Fetch, and says what
// error its user gets.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// throttles hears of every throttled response.
type throttles struct {
	mutex sync.Mutex
	told  []int64 // ms
}

func (t *throttles) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.told = append(t.told, interval.Milliseconds())
}

type outcome struct {
	Acked      int      `json:"acked"`
	Errors     []string `json:"errors"`
	ThrottleMs []int64  `json:"throttle_ms"`
}

// shown returns what the user of a client sees of a request: the name of Kafka's error code, or "-" for none in time.
func shown(api, bootstrap, topic, clientID string, wait time.Duration) string {
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ClientID(clientID),
		kgo.RecordDeliveryTimeout(wait),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if api == "Fetch" {
		offsets := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
		options = append(options, kgo.ConsumePartitions(offsets))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if api == "Fetch" {
		err = client.PollFetches(ctx).Err()
	} else {
		err = client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
	}
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Message
	}
	return "-"
}

func main() {
	bootstrap := flag.String("bootstrap", "", "host:port")
	topic := flag.String("topic", "", "topic with one partition")
	user := flag.String("user", "", "SASL PLAIN user")
	password := flag.String("password", "", "its password")
	clientID := flag.String("client-id", "", "client id")
	seconds := flag.Float64("seconds", 10, "how long")
	shows := flag.String("shows", "", "API of the one request")
	flag.Parse()

	if *shows != "" {
		wait := time.Duration(*seconds * float64(time.Second))
		fmt.Println(shown(*shows, *bootstrap, *topic, *clientID, wait))
		return
	}

	heard := &throttles{}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(*bootstrap),
		kgo.ClientID(*clientID),
		kgo.DefaultProduceTopic(*topic),
		kgo.ProducerLinger(0),
		kgo.SASL(plain.Auth{User: *user, Pass: *password}.AsMechanism()),
		kgo.WithHooks(heard),
	)
	if err != nil {
		panic(err)
	}
	found := outcome{Errors: []string{}, ThrottleMs: []int64{}}
	ends := time.Now().Add(time.Duration(*seconds * float64(time.Second)))
	for time.Now().Before(ends) {
		record := &kgo.Record{Value: []byte("0123456789")}
		if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
			found.Errors = append(found.Errors, err.Error())
		} else {
			found.Acked++
		}
	}
	client.Close()
	heard.mutex.Lock()
	defer heard.mutex.Unlock()
	found.ThrottleMs = append(found.ThrottleMs, heard.told...)
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
