// A smoke test of kafka-go: make a topic, write, read in a group, ask for the offsets, and fail where it must.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

const records = 300

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := &kafka.Client{Addr: kafka.TCP(bootstrap), Transport: &kafka.Transport{ClientID: "smoke"}}
	made, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 3, ReplicationFactor: 1}},
	})
	check(err)
	check(made.Errors[topic])

	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, RequiredAcks: kafka.RequireAll,
		Balancer: &kafka.Hash{}, BatchTimeout: 10 * time.Millisecond,
		Transport: &kafka.Transport{ClientID: "smoke"}, MaxAttempts: 50,
	}
	messages := make([]kafka.Message, 0, records)
	for number := 0; number < records; number++ {
		messages = append(messages, kafka.Message{Key: []byte(strconv.Itoa(number)), Value: make([]byte, 1000)})
	}
	check(writer.WriteMessages(ctx, messages...))
	acked := len(messages)
	check(writer.Close())

	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, GroupID: "g-" + topic, Topic: topic,
		StartOffset: kafka.FirstOffset, MaxWait: 500 * time.Millisecond,
		Dialer: &kafka.Dialer{ClientID: "smoke", Timeout: 10 * time.Second},
	})
	seen, consumed := map[string]bool{}, 0
	for consumed < records {
		message, err := reader.FetchMessage(ctx)
		check(err)
		check(reader.CommitMessages(ctx, message))
		seen[string(message.Key)] = true
		consumed++
	}
	check(reader.Close())

	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	check(err)
	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: "g-" + topic, Topics: map[string][]int{topic: {0, 1, 2}},
	})
	check(err)
	var committed int64
	for _, partition := range offsets.Topics[topic] {
		committed += partition.CommittedOffset
	}
	gone := topic + "-missing"
	deleted, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{gone}})
	check(err)
	missing := "none"
	if errors.Is(deleted.Errors[gone], kafka.UnknownTopicOrPartition) {
		missing = "UNKNOWN_TOPIC_OR_PARTITION"
	} else if deleted.Errors[gone] != nil {
		missing = deleted.Errors[gone].Error()
	}
	said, _ := json.Marshal(map[string]any{
		"partitions": len(metadata.Topics[0].Partitions), "acked": acked, "consumed": consumed,
		"distinct": len(seen), "committed": committed, "missing": missing,
	})
	fmt.Println(string(said))
}
