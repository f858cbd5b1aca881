"""PyTorch's side of the `agents` benchmark: PPO and DQN on Gymnasium's CartPole, as people write them in one file.

Eager modules, NumPy between network and environment, the settings of the algorithms' defaults. Work is counted in steps
of the environment, updates included.
"""

import time
from collections.abc import Iterator

import gymnasium
import numpy as np
import torch
from protocol import Ready, serve, steady
from torch import Tensor, nn

WORLDS, LENGTH, EPOCHS, PARTS = 4, 128, 4, 4


def prepare(task: str, threads: int) -> Ready:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    began = time.perf_counter()
    make = {"ppo": ppo, "dqn": dqn}[task]
    steps, parameters = make()
    for _ in range(2 * WORLDS * LENGTH):
        next(steps)
    first = time.perf_counter() - began

    def work(count: int) -> None:
        for _ in range(count):
            next(steps)

    versions = {"torch": torch.__version__, "gymnasium": gymnasium.__version__}
    return Ready([float(parameters)], first, versions, lambda: steady(work, WORLDS * LENGTH, 2.0))


def ppo() -> tuple[Iterator[None], int]:
    worlds = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * WORLDS)
    actor, critic = tower(2, 0.01), tower(1, 1.0)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=2.5e-4, eps=1e-5)

    def loss(seen: Tensor, action: Tensor, old: Tensor, advantage: Tensor, target: Tensor) -> Tensor:
        policy = torch.distributions.Categorical(logits=actor(seen))
        ratio = (policy.log_prob(action) - old).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        objective = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        error = 0.5 * (critic(seen)[:, 0] - target).square().mean()
        return -objective + 0.5 * error - 0.01 * policy.entropy().mean()

    def improve(batch: list[Tensor]) -> None:
        for _ in range(EPOCHS):
            for rows in torch.randperm(WORLDS * LENGTH).chunk(PARTS):
                optimiser.zero_grad()
                loss(*(a[rows] for a in batch)).backward()
                nn.utils.clip_grad_norm_(parameters, 0.5)
                optimiser.step()

    def steps() -> Iterator[None]:
        seen = torch.as_tensor(worlds.reset(seed=0)[0])
        over = torch.zeros(WORLDS)
        kept = [torch.zeros(LENGTH, WORLDS) for _ in range(5)]
        observations = torch.zeros(LENGTH, WORLDS, 4)
        actions, logs, rewards, overs, values = kept
        while True:
            for t in range(LENGTH):
                observations[t], overs[t] = seen, over
                with torch.no_grad():
                    policy = torch.distributions.Categorical(logits=actor(seen))
                    action = policy.sample()
                    actions[t], logs[t], values[t] = action, policy.log_prob(action), critic(seen)[:, 0]
                found, reward, terminated, truncated, _ = worlds.step(action.numpy())
                seen, rewards[t] = torch.as_tensor(found), torch.as_tensor(reward)
                over = torch.as_tensor(terminated | truncated).float()
                if t < LENGTH - 1:
                    yield from (None,) * WORLDS
            with torch.no_grad():
                last = critic(seen)[:, 0]
            advantages = generalised(rewards, values, overs, over, last)
            flat = (observations, actions, logs, advantages, advantages + values)
            improve([a.flatten(0, 1) for a in flat])
            yield from (None,) * WORLDS

    return steps(), sum(p.numel() for p in parameters)


def generalised(rewards: Tensor, values: Tensor, overs: Tensor, over: Tensor, last: Tensor) -> Tensor:
    out, running = torch.zeros_like(rewards), torch.zeros(WORLDS)
    for t in reversed(range(LENGTH)):
        going = 1 - (over if t == LENGTH - 1 else overs[t + 1])
        after = last if t == LENGTH - 1 else values[t + 1]
        running = rewards[t] + 0.99 * going * after - values[t] + 0.99 * 0.95 * going * running
        out[t] = running
    return out


def dqn() -> tuple[Iterator[None], int]:
    world = gymnasium.make("CartPole-v1")
    online, target = values_of(), values_of()
    target.load_state_dict(online.state_dict())
    optimiser = torch.optim.Adam(online.parameters(), lr=2.5e-4)
    size, batch = 10_000, 128
    rng = np.random.default_rng(0)
    before, after = np.zeros((size, 4), np.float32), np.zeros((size, 4), np.float32)
    actions, rewards, ends = np.zeros(size, np.int64), np.zeros(size, np.float32), np.zeros(size, np.float32)

    def improve(filled: int) -> None:
        rows = rng.integers(0, filled, batch)
        s, n, a, r, e = (torch.as_tensor(x[rows]) for x in (before, after, actions, rewards, ends))
        with torch.no_grad():
            best = online(n).argmax(1, keepdim=True)
            y = r + 0.99 * (1 - e) * target(n).gather(1, best)[:, 0]
        loss = 0.5 * (y - online(s).gather(1, a[:, None])[:, 0]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    def steps() -> Iterator[None]:
        seen, _ = world.reset(seed=0)
        number = 0
        while True:
            if rng.random() < 0.05:
                action = int(rng.integers(2))
            else:
                with torch.no_grad():
                    action = int(online(torch.as_tensor(seen)[None]).argmax())
            found, reward, terminated, truncated, _ = world.step(action)
            row = number % size
            before[row], after[row], actions[row] = seen, found, action
            rewards[row], ends[row] = reward, terminated
            seen = world.reset()[0] if terminated or truncated else found
            number += 1
            if number % 10 == 0 and number >= batch:
                improve(min(number, size))
            if number % 500 == 0:
                target.load_state_dict(online.state_dict())
            yield

    return steps(), sum(p.numel() for p in online.parameters())


def tower(outputs: int, gain: float) -> nn.Sequential:
    layers = [nn.Linear(4, 64), nn.Linear(64, 64), nn.Linear(64, outputs)]
    for layer, scale in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def values_of() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 2))


if __name__ == "__main__":
    serve(prepare)
