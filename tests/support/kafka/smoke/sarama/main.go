// A smoke test of sarama: make a topic, write, read in a group, ask for the offsets, and fail where it must.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const records = 300

type reader struct {
	seen map[string]int
	done context.CancelFunc
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (r *reader) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-c.Messages():
			if !open {
				return nil
			}
			lock <- struct{}{}
			r.seen[string(message.Key)]++
			total := 0
			for _, times := range r.seen {
				total += times
			}
			<-lock
			s.MarkMessage(message, "")
			if total >= records {
				s.Commit()
				r.done()
				return nil
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

var lock = make(chan struct{}, 1)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	bootstrap, topic := strings.Split(os.Args[1], ","), os.Args[2]
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.ClientID = "smoke"
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	admin, err := sarama.NewClusterAdmin(bootstrap, config)
	check(err)
	check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false))

	producer, err := sarama.NewSyncProducer(bootstrap, config)
	check(err)
	acked := 0
	for number := 0; number < records; number++ {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: topic,
			Key:   sarama.StringEncoder(strconv.Itoa(number)),
			Value: sarama.ByteEncoder(make([]byte, 1000)),
		})
		check(err)
		acked++
	}
	check(producer.Close())

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	group, err := sarama.NewConsumerGroup(bootstrap, "g-"+topic, config)
	check(err)
	handler := &reader{map[string]int{}, cancel}
	for ctx.Err() == nil {
		check(group.Consume(ctx, []string{topic}, handler))
	}
	check(group.Close())

	topics, err := admin.DescribeTopics([]string{topic})
	check(err)
	offsets, err := admin.ListConsumerGroupOffsets("g-"+topic, map[string][]int32{topic: {0, 1, 2}})
	check(err)
	var committed int64
	for partition := int32(0); partition < 3; partition++ {
		committed += offsets.GetBlock(topic, partition).Offset
	}
	missing := "none"
	if err := admin.DeleteTopic(topic + "-missing"); errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		missing = "UNKNOWN_TOPIC_OR_PARTITION"
	} else if err != nil {
		missing = err.Error()
	}
	consumed := 0
	for _, times := range handler.seen {
		consumed += times
	}
	said, _ := json.Marshal(map[string]any{
		"partitions": len(topics[0].Partitions), "acked": acked, "consumed": consumed,
		"distinct": len(handler.seen), "committed": committed, "missing": missing,
	})
	check(admin.Close())
	fmt.Println(string(said))
}
