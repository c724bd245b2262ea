// A smoke test of kafkajs: make a topic, write, read in a group, ask for the offsets, and fail where it must.
"use strict";
const { Kafka, logLevel } = require("kafkajs");

const RECORDS = 300;

async function main(bootstrap, topic) {
  const kafka = new Kafka({ clientId: "smoke", brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 3, replicationFactor: 1 }] });

  const producer = kafka.producer();
  await producer.connect();
  let acked = 0;
  for (let first = 0; first < RECORDS; first += 50) {
    const messages = Array.from({ length: 50 }, (_, place) => ({
      key: String(first + place),
      value: Buffer.alloc(1000),
    }));
    await producer.send({ topic, acks: -1, messages });
    acked += messages.length;
  }
  await producer.disconnect();

  const consumer = kafka.consumer({ groupId: `g-${topic}` });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const seen = new Set();
  let consumed = 0;
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`${consumed} records after a minute`)), 60_000).unref();
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({
      eachMessage: async ({ message }) => {
        seen.add(message.key.toString());
        consumed += 1;
        if (consumed >= RECORDS) resolve();
      },
    });
  });
  await consumer.stop(); // commits
  await consumer.disconnect();

  const described = await admin.fetchTopicMetadata({ topics: [topic] });
  const [offsets] = await admin.fetchOffsets({ groupId: `g-${topic}`, topics: [topic] });
  const committed = offsets.partitions.reduce((sum, { offset }) => sum + Number(offset), 0);
  let missing = "none";
  try {
    await admin.deleteTopics({ topics: [`${topic}-missing`], timeout: 5000 });
  } catch (error) {
    missing = (error.type ? error : error.cause ?? error).type ?? error.message;
  }
  await admin.disconnect();
  const partitions = described.topics[0].partitions.length;
  const distinct = seen.size;
  console.log(JSON.stringify({ partitions, acked, consumed, distinct, committed, missing }));
}

main(process.argv[2], process.argv[3]).catch((error) => {
  console.error(error);
  process.exit(1);
});
